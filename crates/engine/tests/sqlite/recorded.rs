//! Topics recorded from real servers end as the source tables are.
