"""Training as the paper describes it: sparse pages and captions, a query table, the caption gate."""
