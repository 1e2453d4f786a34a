//! Destinations, one folder each.
