//! What a quiet round costs, counted and not timed: `cargo bench -p ccm-tests` has the times.

use ccm_tests::converged::Cluster;

#[test]
fn quiet_round_plans_nothing_and_reads_no_members_at_any_size() {
    for services in [200, 2_000] {
        assert_eq!(Cluster::converged(services).plan(), services);
    }
}
