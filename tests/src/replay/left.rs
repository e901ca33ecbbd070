//! The world that lists of a real CloudStack describe: what another controller left there
//! (`fixtures/adoption`), for a simulator that goes on from there.

use ccm_simulator::World;
use serde_json::{Map, Value, json};

use super::library::{Kind, Seed, kind_of};
use super::recording::ReplayError;
use super::seed::{networks, rows, vm, with_objects};

/// The list that tells the members of each rule, by the id of the rule.
const MEMBERS: &str = "listLoadBalancerRuleInstances";

/// How long a job takes: longer than a call.
const JOB: &str = "200ms";

/// The world of answers by command, as an account of the role User saw them. Its keys are
/// `<account>-api-key` and `<account>-secret-key`.
///
/// # Errors
/// If the answers lack what a world needs.
pub fn world_of_lists(answers: &Map<String, Value>) -> Result<World, ReplayError> {
    let seeds = seeds(answers);
    let address = object(&seeds, Kind::Address)?;
    let account = address["account"].as_str().unwrap_or_default();
    let zone = object(&seeds, Kind::Zone)?;
    let parts = json!({
        "zone": {
            "name": zone["name"],
            "id": zone["id"],
            "physical-network": address["physicalnetworkid"],
            "public-network": address["networkid"],
        },
        "domain": {
            "name": address["domain"],
            "path": address["domainpath"],
            "id": address["domainid"],
        },
        "jobs": {"default": JOB},
        "accounts": [{
            "name": account,
            "api-key": format!("{account}-api-key"),
            "secret-key": format!("{account}-secret-key"),
        }],
        "default-acl-lists": default_lists(&seeds),
        "networks": networks(&seeds, &Value::Null),
        "virtual-machines": rows(&seeds, Kind::VirtualMachine, |seed| Some(vm(&seed.object))),
    });
    with_objects(parts, &seeds)
}

fn seeds(answers: &Map<String, Value>) -> Vec<Seed> {
    let lists = answers.values().filter_map(Value::as_object).flatten();
    let known = lists.filter_map(|(key, rows)| Some((kind_of(key)?, rows.as_array()?)));
    let objects = known.flat_map(|(kind, rows)| rows.iter().map(move |row| (kind, row)));
    objects.map(|(kind, row)| Seed::listed(kind, row.clone(), members(answers, row))).collect()
}

/// Ids of the virtual machines behind a rule; none if it is no rule.
fn members(answers: &Map<String, Value>, row: &Value) -> Vec<String> {
    let rule = row["id"].as_str().and_then(|id| answers.get(MEMBERS)?.get(id));
    let entries = rule.and_then(|rule| rule["lbrulevmidip"].as_array()).into_iter().flatten();
    let ids = entries.filter_map(|entry| entry["loadbalancerruleinstance"]["id"].as_str());
    ids.map(str::to_owned).collect()
}

/// Ids of the lists that belong to no VPC, by name.
fn default_lists(seeds: &[Seed]) -> Map<String, Value> {
    let lists = seeds.iter().filter(|seed| seed.kind == Kind::AclList).map(|seed| &seed.object);
    let default = lists.filter(|list| list.get("vpcid").is_none());
    default
        .filter_map(|list| Some((list["name"].as_str()?.to_owned(), list["id"].clone())))
        .collect()
}

fn object(seeds: &[Seed], kind: Kind) -> Result<&Value, ReplayError> {
    let found = seeds.iter().find(|seed| seed.kind == kind).map(|seed| &seed.object);
    found.ok_or_else(|| ReplayError(format!("the lists show no {kind:?}")))
}
