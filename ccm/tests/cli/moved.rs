//! A saved plan whose world has moved is refused; a change elsewhere does not refuse it.

use std::fs;

use ccm_core::cidr::Sources;
use ccm_core::model::service::{Algorithm, RuleProtocol};
use ccm_core::observe::LoadBalancerRule;
use ccm_core::plan::action::{Call, CreateLoadBalancerRule, UpdateLoadBalancerRule};

use crate::harness::{Served, fixture};

/// Converged, and then sessionAffinity of web changes and is planned.
fn with_a_saved_plan() -> (Served, String, String) {
    let served = Served::start();
    let file = served.directory.path("plan.json");
    served.plan(&["--out", &file]).exits(2);
    served.apply(&file, &[]).exits(0);
    let web = fs::read_to_string(fixture("demo/services/web.yaml")).unwrap();
    let web = web.replace("sessionAffinity: None", "sessionAffinity: ClientIP");
    let services = served.directory.write("web.yaml", &web);
    let planned = served.plan_of(&services, &["--out", &file]).exits(2);
    assert!(planned.stdout.contains("roundrobin -> source"), "{}", planned.stdout);
    (served, file, services)
}

fn rule_of_web(served: &Served) -> LoadBalancerRule {
    let rules = served.state().rules;
    rules.into_iter().find(|rule| rule.public_port == 443).unwrap()
}

#[test]
fn a_rule_that_somebody_changed_refuses_the_plan() {
    let (served, file, services) = with_a_saved_plan();
    served.by_hand(&Call::UpdateLoadBalancerRule(UpdateLoadBalancerRule {
        rule: rule_of_web(&served).id,
        protocol: RuleProtocol::Tcp,
        name: None,
        algorithm: Some(Algorithm::LeastConn),
        sources: None,
        description: None,
    }));
    let refused = served.apply(&file, &[]).exits(4);
    assert_eq!(refused.stdout, "");
    assert!(refused.stderr.contains("shop/web: rule/tcp-443"), "{}", refused.stderr);
    assert!(refused.stderr.contains("leastconn"), "{}", refused.stderr);
    assert!(!refused.stderr.contains("rule/tcp-80"), "{}", refused.stderr);
    assert_eq!(rule_of_web(&served).algorithm, Ok(Algorithm::LeastConn), "nothing was done");

    served.plan_of(&services, &["--out", &file]).exits(2);
    served.apply(&file, &[]).exits(0);
    served.plan_of(&services, &[]).exits(0);
}

#[test]
fn a_change_elsewhere_does_not_refuse_the_plan() {
    let (served, file, services) = with_a_saved_plan();
    let state = served.state();
    let address = state.addresses.iter().find(|found| found.source_nat && found.vpc.is_none());
    let address = address.unwrap();
    served.by_hand(&Call::CreateLoadBalancerRule(CreateLoadBalancerRule {
        address: address.id.clone(),
        network: address.network.clone().unwrap(),
        name: "by-hand".to_owned(),
        description: "somebody else's".to_owned(),
        public_port: 8080,
        private_port: 8080,
        protocol: RuleProtocol::Tcp,
        algorithm: Algorithm::RoundRobin,
        sources: Sources::Everybody,
    }));
    served.apply(&file, &[]).exits(0);
    assert_eq!(rule_of_web(&served).algorithm, Ok(Algorithm::Source));
    served.plan_of(&services, &[]).exits(0);
}

#[test]
fn a_plan_is_not_carried_out_twice_or_for_another_cluster() {
    let (served, file, _) = with_a_saved_plan();
    served
        .apply(&file, &["--cluster-id", "other"])
        .fails_with(&["made for cluster demo", "for cluster other"]);
    served.apply(&file, &[]).exits(0);
    let again = served.apply(&file, &[]).exits(4);
    assert!(again.stderr.contains("is not needed any more"), "{}", again.stderr);
}
