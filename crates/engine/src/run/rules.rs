//! Rules of `[tables."…"]` that matched nothing that was read: said as `check` says them, but of the
//! log itself.
//!
//! Nothing is known of the tables that a run did not meet. So a rule is only said to match nothing
//! where the run read its part of the log from the beginning to the end, or where a table came that
//! has no rule and nearly the same name.

use std::collections::BTreeSet;

use crate::check::{nearest, unmatched};
use crate::config::Target;
use crate::finding::Finding;

/// Rules that match none of the tables that were read. `whole`: from the beginning to the end.
pub(super) fn unmatched_rules(target: &Target, read: &BTreeSet<String>, whole: bool) -> Vec<Finding> {
    // Nothing is known of rules where no table was seen.
    if read.is_empty() {
        return Vec::new();
    }
    let without_rule = || read.iter().map(String::as_str).filter(|table| !target.tables.contains_key(*table));
    let unknown = target.tables.keys().filter(|name| !read.contains(*name));
    unknown
        .filter(|name| whole || nearest(name, without_rule()).is_some())
        .map(|name| unmatched(name, "that was read, which are", read))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::TableRule;

    fn said(rules: &[&str], read: &[&str], whole: bool) -> Vec<String> {
        let rule = |name: &&str| ((*name).to_owned(), TableRule::default());
        let target = Target { tables: rules.iter().map(rule).collect(), ..Target::default() };
        let read = read.iter().map(|name| (*name).to_owned()).collect();
        let said = unmatched_rules(&target, &read, whole).into_iter();
        said.map(|finding| format!("{}; {}", finding.what, finding.fix)).collect()
    }

    #[test]
    fn a_slip_of_the_pen_is_said_wherever_a_run_began() {
        for whole in [false, true] {
            assert_eq!(
                said(&["public.order", "public.users"], &["public.orders", "public.users"], whole),
                [
                    "[tables.\"public.order\"] matches no table that was read, which are public.orders, public.users; did \
                     you mean [tables.\"public.orders\"]?"
                ]
            );
        }
    }

    #[test]
    fn a_table_that_did_not_change_in_a_part_of_the_log_is_no_slip() {
        let (rules, read) = (["public.order", "public.orders", "public.users"], ["public.orders"]);
        assert_eq!(said(&rules, &read, false), [""; 0]);
        assert_eq!(said(&rules, &read, true).len(), 2, "the whole log has none of it");
        assert_eq!(said(&rules, &[], true), [""; 0], "nothing was read");
    }
}
