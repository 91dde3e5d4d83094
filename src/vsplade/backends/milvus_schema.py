"""The three collections of an index on Milvus: pages, windows of meaning, records."""

from __future__ import annotations

from typing import Any

from pymilvus import DataType, MilvusClient

from vsplade.errors import IndexFormatError

TEXT = 65_535
"""Bytes that a text field of Milvus holds."""
MOST_TERMS = 4096
"""Values that an array of Milvus holds."""
WINDOWS, RECORDS = "_windows", "_records"
"""What stands behind the name of the collection with the pages."""

PAGE_FIELDS = {
    "key": DataType.VARCHAR,
    "place": DataType.INT64,
    "page": DataType.VARCHAR,
    "metadata": DataType.JSON,
    "lists": DataType.INT8,
    "terms": DataType.ARRAY,
    "thumbnail": DataType.VARCHAR,
    "vector": DataType.SPARSE_FLOAT_VECTOR,
}
WINDOW_FIELDS = {
    "key": DataType.VARCHAR,
    "page_key": DataType.VARCHAR,
    "cluster": DataType.INT64,
    "metadata": DataType.JSON,
    "lists": DataType.INT8,
    "direction": DataType.FLOAT_VECTOR,
}
RECORD_FIELDS = {
    "key": DataType.VARCHAR,
    "name": DataType.VARCHAR,
    "part": DataType.INT64,
    "stamp": DataType.VARCHAR,
    "text": DataType.VARCHAR,
    "nothing": DataType.FLOAT_VECTOR,
}
"""Milvus keeps no rows without a vector; that of a record means nothing."""
_SHORT = {"key": 64, "page_key": 64, "stamp": 64}


def create_pages(client: MilvusClient, name: str, scalar_index: bool, shards: int) -> None:
    indexes = client.prepare_index_params()
    indexes.add_index(
        "vector",
        index_type="SPARSE_INVERTED_INDEX",
        metric_type="IP",
        params={"drop_ratio_build": 0.0},  # nothing is left out: results are exact
    )
    if scalar_index:
        indexes.add_index("terms", index_type="INVERTED")
    _create(client, name, PAGE_FIELDS, indexes, shards)


def create_windows(client: MilvusClient, name: str, dimensions: int, shards: int) -> None:
    indexes = client.prepare_index_params()
    indexes.add_index("direction", index_type="FLAT", metric_type="COSINE")
    _create(client, name, WINDOW_FIELDS, indexes, shards, dimensions)


def create_records(client: MilvusClient, name: str) -> None:
    indexes = client.prepare_index_params()
    indexes.add_index("nothing", index_type="FLAT", metric_type="L2")
    _create(client, name, RECORD_FIELDS, indexes, 1, 2)


def _create(
    client: MilvusClient,
    name: str,
    fields: dict[str, DataType],
    indexes: Any,
    shards: int,
    dimensions: int = 0,
) -> None:
    schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
    for field, kind in fields.items():
        given: dict[str, Any] = {}
        if kind == DataType.VARCHAR:
            given["max_length"] = _SHORT.get(field, TEXT)
        elif kind == DataType.ARRAY:
            given |= {"element_type": DataType.INT32, "max_capacity": MOST_TERMS}
        elif kind == DataType.FLOAT_VECTOR:
            given["dim"] = dimensions
        schema.add_field(field, kind, is_primary=field == "key", **given)
    client.create_collection(
        name, schema=schema, index_params=indexes, consistency_level="Bounded", num_shards=shards
    )


def check_fields(client: MilvusClient, name: str, wanted: dict[str, DataType], where: str) -> None:
    """A collection of the same name may be somebody else's."""
    found = {field["name"]: field["type"] for field in client.describe_collection(name)["fields"]}
    if found != wanted:
        differ = sorted(field for field in found.keys() | wanted if found.get(field) != wanted.get(field))
        raise IndexFormatError(
            f"{where}: the collection {name!r} was not made by vsplade, or by another version of it (its "
            f"field {differ[0]!r} differs). Nothing was changed. Give the index another name."
        )
