//! The life of a virtual machine: made, started, stopped, renamed, destroyed. Lists show the old
//! state, with the job, until the job ends.

use std::net::Ipv4Addr;

use serde_json::{Value, json};

use crate::answer::Answer;
use crate::cloud::{Cloud, Extra, Owner, RuleState};
use crate::commands::{Call, Entity, Kind, Param, may, must};
use crate::error::{ApiError, JobFailure};
use crate::jobs::{Accepted, Instance, Work};
use crate::lists::equal;
use crate::object::{Object, date};
use crate::resources::load_balancer_rule::{self, LoadBalancerRule};
use crate::resources::network::{Network, network_domain};
use crate::resources::virtual_machine::{Details, Nic, ServiceOffering, VirtualMachine, json};
use crate::table::Key;
use crate::world::VmState;

pub(crate) const DEPLOY_PARAMS: &[Param] = &[
    must("zoneid", Kind::Id(Entity::Zone)),
    must("templateid", Kind::Text),
    must("serviceofferingid", Kind::Text),
    may("networkids", Kind::Ids(Entity::Network)),
    may("name", Kind::Text),
    may("displayname", Kind::Text),
    may("startvm", Kind::Flag),
    may("projectid", Kind::Id(Entity::Project)),
];

pub(crate) const ID_PARAMS: &[Param] = &[
    must("id", Kind::Id(Entity::VirtualMachine)),
    may("forced", Kind::Flag),
    may("expunge", Kind::Flag),
];

pub(crate) const UPDATE_PARAMS: &[Param] = &[
    must("id", Kind::Id(Entity::VirtualMachine)),
    may("name", Kind::Text),
    may("displayname", Kind::Text),
];

/// What a host name may be, as CloudStack says it.
const HOST_NAME: &str = "it can contain ASCII letters 'a' through 'z', the digits '0' through '9', and the hyphen ('-'), must be between 1 and 63 characters long, and can't start or end with \"-\" and can't start with digit";

/// What the end of a job does to a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// Nothing: it was done already, or nothing shows.
    Nothing,
    /// Its state, and the time of it.
    To(VmState),
    /// It is gone for good.
    Expunged,
}

/// deployVirtualMachine, with the request: the row and its addresses.
pub(crate) fn accept_deploy(cloud: &mut Cloud, call: &Call) -> Result<Accepted, ApiError> {
    let params = &call.params;
    let owner = params.key("projectid").map_or(Owner::Account(call.caller), Owner::Project);
    let networks = params.keys::<Network>("networkids").unwrap_or_default();
    let id = cloud.ids.next_id();
    let name = params.filled("name").map_or_else(|| format!("VM-{id}"), str::to_owned);
    check_name(call, &name)?;
    for network in &networks {
        check_network(cloud, call, *network, &name)?;
    }
    let mut nics = Vec::new();
    for network in networks {
        nics.push(new_nic(cloud, network, None, nics.is_empty())?);
    }
    let display_name = params.filled("displayname").unwrap_or(&name).to_owned();
    let offering = offering(cloud, params.text("serviceofferingid").unwrap_or_default());
    // A world has one template: a new machine shows of it what the oldest one shows.
    let mut extra = oldest_extra(cloud);
    extra.retain(|field, _| TEMPLATE_FIELDS.contains(&field.as_str()));
    extra.insert("details".to_owned(), json!({"deployvm": "true"}));
    let key = cloud.vms.insert(VirtualMachine {
        id: id.clone(),
        name,
        display_name,
        owner,
        creator: Some(call.user),
        state: VmState::Stopped,
        created: date(cloud.now),
        updated: None,
        nics,
        offering,
        extra,
    });
    Ok(Accepted { id: Some(id.clone()), number: key.number(), instance: Some(about(id)) })
}

/// Fields without meaning here that a machine has before it ever ran.
const TEMPLATE_FIELDS: &[&str] = &[
    "guestosid",
    "isomaxcount",
    "osdisplayname",
    "ostypeid",
    "readonlydetails",
    "receivedbytes",
    "sentbytes",
    "templatedisplaytext",
    "templateformat",
    "templateid",
    "templatename",
    "templatetype",
];
/// Fields that only a running machine shows.
const RUNNING_FIELDS: &[&str] = &["bootmode", "boottype", STARTED];

/// What tells that a machine has been started once.
pub(crate) const STARTED: &str = "pooltype";

/// Of these, what a stop takes away for good.
const BOOT_FIELDS: &[&str] = &["bootmode", "boottype"];

fn oldest_extra(cloud: &Cloud) -> Extra {
    cloud.vms.iter().next().map(|(_, oldest)| oldest.extra.clone()).unwrap_or_default()
}

fn about(id: String) -> Instance {
    Instance { kind: "VirtualMachine", id: Some(id) }
}

fn check_name(call: &Call, name: &str) -> Result<(), ApiError> {
    let good = name.len() <= 63
        && name.starts_with(|first: char| first.is_ascii_alphabetic())
        && !name.ends_with('-')
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-');
    if good {
        return Ok(());
    }
    Err(ApiError::parameter(format!(
        "Unable to execute API command {} due to invalid value. Invalid value provided for API arg: name - {HOST_NAME}",
        call.command.error_name()
    )))
}

/// The network must be within reach and have no machine of that name.
fn check_network(
    cloud: &Cloud,
    call: &Call,
    key: Key<Network>,
    name: &str,
) -> Result<(), ApiError> {
    let network = cloud.networks.get(key).ok_or_else(ApiError::permission)?;
    if !cloud.may_use(call.caller, network.owner) {
        return Err(ApiError::permission());
    }
    let taken = cloud
        .vms
        .iter()
        .any(|(_, vm)| vm.is_visible() && vm.nic_in(key).is_some() && equal(&vm.name, name));
    if !taken {
        return Ok(());
    }
    Err(ApiError::invalid(format!(
        "The vm with hostName {name} already exists in the network domain: {}; network={}",
        network_domain(network),
        network.name
    )))
}

/// An interface with the address asked for, or a free one of its network.
pub(crate) fn new_nic(
    cloud: &mut Cloud,
    network: Key<Network>,
    asked: Option<Ipv4Addr>,
    default: bool,
) -> Result<Nic, ApiError> {
    let address = guest_address(cloud, network, asked)?;
    let [_, second, third, fourth] = address.octets();
    let like = cloud.vms.iter().find_map(|(_, vm)| vm.nic_in(network));
    let mut extra = like.map(|nic| nic.extra.clone()).unwrap_or_default();
    extra.remove("macaddress");
    Ok(Nic {
        id: cloud.ids.next_id(),
        network,
        address: address.to_string(),
        secondary: Vec::new(),
        mac: format!("02:01:00:{second:02x}:{third:02x}:{fourth:02x}"),
        default,
        extra,
    })
}

/// The address asked for, else the one that a test chose, else the lowest of a network, after the
/// gateway, that no machine holds. CloudStack draws one by chance.
///
/// # Errors
/// 533 if an address has to be drawn and all are held.
pub(crate) fn guest_address(
    cloud: &mut Cloud,
    network: Key<Network>,
    asked: Option<Ipv4Addr>,
) -> Result<Ipv4Addr, ApiError> {
    if let Some(asked) = asked {
        return Ok(asked);
    }
    let cidr = cloud.networks.get(network).map(|row| row.cidr).ok_or_else(ApiError::permission)?;
    let chosen = cloud.next_guest_address.filter(|address| cidr.contains(address));
    let drawn = chosen.into_iter().chain(cidr.hosts().skip(1)).find(|address| {
        let text = address.to_string();
        !cloud.vms.iter().any(|(_, vm)| vm.holds(network, &text))
    });
    let drawn = drawn.ok_or_else(|| {
        ApiError::new(533, 4320, "Unable to acquire Guest IP address for the network")
    })?;
    cloud.next_guest_address.take_if(|next| *next == drawn);
    Ok(drawn)
}

/// The offering of an id as other machines have it, or one of the usual size.
fn offering(cloud: &Cloud, id: &str) -> ServiceOffering {
    let known = cloud.vms.iter().find(|(_, vm)| vm.offering.id.eq_ignore_ascii_case(id));
    known.map_or_else(
        || ServiceOffering {
            id: id.to_owned(),
            name: "Small Instance".to_owned(),
            cpus: 1,
            speed: 500,
            memory: 512,
        },
        |(_, vm)| vm.offering.clone(),
    )
}

/// deployVirtualMachine, in the job.
#[expect(clippy::unnecessary_wraps, reason = "the signature of all commands")]
pub(crate) fn start_deploy(
    _: &mut Cloud,
    call: &Call,
    accepted: &Accepted,
) -> Result<Work, JobFailure> {
    let started = call.params.flag("startvm") != Some(false);
    let change = if started { Change::To(VmState::Running) } else { Change::Nothing };
    Ok(Work::VmChanged { vm: Key::of(accepted.number), change, details: Details::all() })
}

/// What start, stop, reboot and destroy do with the request: they name the machine of their job.
#[expect(clippy::unnecessary_wraps, reason = "the signature of all commands")]
pub(crate) fn accept(cloud: &mut Cloud, call: &Call) -> Result<Accepted, ApiError> {
    Ok(accepted(cloud, call.params.required("id")))
}

/// A job about a machine.
pub(crate) fn accepted(cloud: &Cloud, key: Key<VirtualMachine>) -> Accepted {
    let id = cloud.vms.get(key).map(|vm| vm.id.clone());
    Accepted { id: None, number: key.number(), instance: id.map(about) }
}

/// startVirtualMachine.
pub(crate) fn start(
    cloud: &mut Cloud,
    call: &Call,
    accepted: &Accepted,
) -> Result<Work, JobFailure> {
    changed(cloud, call, accepted, Change::To(VmState::Running))
}

/// stopVirtualMachine.
pub(crate) fn stop(
    cloud: &mut Cloud,
    call: &Call,
    accepted: &Accepted,
) -> Result<Work, JobFailure> {
    changed(cloud, call, accepted, Change::To(VmState::Stopped))
}

/// rebootVirtualMachine: nothing of it shows.
pub(crate) fn reboot(
    cloud: &mut Cloud,
    call: &Call,
    accepted: &Accepted,
) -> Result<Work, JobFailure> {
    changed(cloud, call, accepted, Change::Nothing)
}

/// destroyVirtualMachine; only admins expunge.
pub(crate) fn start_destroy(
    cloud: &mut Cloud,
    call: &Call,
    accepted: &Accepted,
) -> Result<Work, JobFailure> {
    if call.params.flag("expunge") != Some(true) {
        return changed(cloud, call, accepted, Change::To(VmState::Destroyed));
    }
    if !cloud.is_root(call.caller) {
        return Err(JobFailure::internal("Account does not have permission for expunging."));
    }
    changed(cloud, call, accepted, Change::Expunged)
}

fn changed(
    cloud: &Cloud,
    call: &Call,
    accepted: &Accepted,
    change: Change,
) -> Result<Work, JobFailure> {
    let vm = Key::of(accepted.number);
    check_changeable(cloud, call, vm)?;
    Ok(Work::VmChanged { vm, change, details: Details::all() })
}

/// Whether a job may change a machine. Only root admins reach destroyed ones.
pub(crate) fn check_changeable(
    cloud: &Cloud,
    call: &Call,
    key: Key<VirtualMachine>,
) -> Result<(), JobFailure> {
    let sees_all = cloud.is_root(call.caller);
    match cloud.vms.get(key).filter(|row| row.is_visible() || sees_all) {
        Some(row) if cloud.may_use(call.caller, row.owner) => Ok(()),
        Some(_) => Err(JobFailure::permission()),
        None => Err(JobFailure::invalid(format!(
            "Unable to find a virtual machine with id {}",
            key.number()
        ))),
    }
}

/// The end of a job about a machine: its new state, and the machine as result.
pub(crate) fn finish(
    cloud: &mut Cloud,
    key: Key<VirtualMachine>,
    change: Change,
    details: &Details,
) -> Result<Value, JobFailure> {
    match change {
        Change::Nothing => {}
        Change::To(state) => set_state(cloud, key, state),
        Change::Expunged => set_state(cloud, key, VmState::Expunging),
    }
    let row = cloud.vms.get(key);
    let result =
        row.map(|row| Object::new().with("virtualmachine", json(cloud, row, details)).into());
    if change == Change::Expunged {
        expunge(cloud, key);
    }
    result.ok_or_else(|| JobFailure::internal("Failed to find the virtual machine"))
}

/// Gives a machine a state. The first machine to run in a network brings up its router; a
/// destroyed one leaves the rules on their routers.
pub(crate) fn set_state(cloud: &mut Cloud, key: Key<VirtualMachine>, state: VmState) {
    let now = date(cloud.now.max(cloud.started));
    let mut shown = oldest_extra(cloud);
    shown.retain(|field, _| RUNNING_FIELDS.contains(&field.as_str()));
    let Some(row) = cloud.vms.get_mut(key) else {
        return;
    };
    row.state = state;
    row.updated = Some(now);
    if matches!(state, VmState::Stopped | VmState::Destroyed) {
        row.extra.retain(|field, _| !BOOT_FIELDS.contains(&field.as_str()));
    }
    match state {
        VmState::Running => {
            row.extra.remove("details");
            if !row.extra.contains_key(STARTED) {
                row.extra.extend(shown);
            }
            let networks: Vec<Key<Network>> = row.nics.iter().map(|nic| nic.network).collect();
            for network in networks {
                implement(cloud, network);
            }
        }
        VmState::Destroyed => {
            for rule in rules_of(cloud, key) {
                load_balancer_rule::push(cloud, rule).ok();
            }
        }
        VmState::Starting
        | VmState::Stopping
        | VmState::Stopped
        | VmState::Migrating
        | VmState::Expunging
        | VmState::Error
        | VmState::Unknown => {}
    }
}

/// Gives a network its router, if it has none yet, and tells it every rule.
pub(crate) fn implement(cloud: &mut Cloud, key: Key<Network>) {
    match cloud.networks.get_mut(key) {
        Some(row) if !row.implemented => row.implemented = true,
        Some(_) | None => return,
    }
    let rules: Vec<Key<LoadBalancerRule>> = cloud
        .rules
        .iter()
        .filter(|(_, rule)| rule.network == key && rule.state != RuleState::Deleting)
        .map(|(key, _)| key)
        .collect();
    for rule in rules {
        load_balancer_rule::push(cloud, rule).ok();
    }
}

/// Removes a machine for good: its mappings end, and its id names nothing any more but still
/// resolves.
pub(crate) fn expunge(cloud: &mut Cloud, key: Key<VirtualMachine>) {
    for rule in rules_of(cloud, key) {
        if let Some(row) = cloud.rules.get_mut(rule) {
            for mapping in row.members.iter_mut().filter(|mapping| mapping.vm == key) {
                mapping.revoked = true;
            }
        }
        load_balancer_rule::push(cloud, rule).ok();
    }
    cloud.vms.bury(key);
}

/// The rules that a machine is mapped to.
pub(crate) fn rules_of(cloud: &Cloud, vm: Key<VirtualMachine>) -> Vec<Key<LoadBalancerRule>> {
    cloud
        .rules
        .iter()
        .filter(|(_, rule)| rule.members.iter().any(|mapping| mapping.vm == vm))
        .map(|(key, _)| key)
        .collect()
}

/// recoverVirtualMachine: only admins recover.
pub(crate) fn recover(cloud: &mut Cloud, call: &Call) -> Result<Answer, ApiError> {
    if !cloud.is_root(call.caller) {
        return Err(ApiError::new(
            531,
            4365,
            "Recovering a vm can only be done by an Admin. Or when the allow.user.expunge.recover.vm key is set.",
        ));
    }
    let key = call.params.required::<VirtualMachine>("id");
    set_state(cloud, key, VmState::Stopped);
    shown(cloud, key)
}

/// updateVirtualMachine: names change at once, whatever the machine does.
pub(crate) fn update(cloud: &mut Cloud, call: &Call) -> Result<Answer, ApiError> {
    let params = &call.params;
    let key = params.required::<VirtualMachine>("id");
    let owner = cloud.vms.get(key).filter(|row| row.is_visible()).map(|row| row.owner);
    if !owner.is_some_and(|owner| cloud.may_use(call.caller, owner)) {
        return Err(ApiError::permission());
    }
    if let Some(name) = params.filled("name") {
        check_name(call, name)?;
    }
    if let Some(row) = cloud.vms.get_mut(key) {
        row.name = params.filled("name").unwrap_or(&row.name).to_owned();
        row.display_name = params.filled("displayname").unwrap_or(&row.display_name).to_owned();
    }
    shown(cloud, key)
}

fn shown(cloud: &Cloud, key: Key<VirtualMachine>) -> Result<Answer, ApiError> {
    let row = cloud.vms.get(key).ok_or_else(ApiError::permission)?;
    let shown = json(cloud, row, &Details::all());
    Ok(Object::new().with("virtualmachine", shown).into())
}

#[cfg(test)]
mod tests {
    use crate::testing::{Lab, text};

    fn deploy(lab: &mut Lab, network: &str, name: &str, more: &[(&str, &str)]) -> String {
        let network = lab.id("listNetworks", network);
        let zone = lab.id("listZones", "zone-1");
        let mut params = vec![
            ("zoneid", zone.as_str()),
            ("templateid", "t"),
            ("serviceofferingid", "s"),
            ("networkids", network.as_str()),
            ("name", name),
        ];
        params.extend(more);
        let made = lab.run("deployVirtualMachine", &params);
        text(&made["virtualmachine"]["id"])
    }

    #[test]
    fn a_machine_lives_through_all_its_states() {
        let mut lab = Lab::new();
        let id = deploy(&mut lab, "iso", "life", &[("startvm", "false")]);
        let this = [("id", id.as_str())];
        let listed = lab.rows("listVirtualMachines", &this).remove(0);
        assert_eq!((&listed["state"], listed.get("lastupdated")), (&"Stopped".into(), None));
        assert_eq!(listed["details"]["deployvm"], "true");
        assert_eq!(listed["ipaddress"], "10.1.1.2");
        for (command, state) in [
            ("startVirtualMachine", "Running"),
            ("rebootVirtualMachine", "Running"),
            ("stopVirtualMachine", "Stopped"),
        ] {
            let job = lab.run(command, &this);
            assert_eq!(job["virtualmachine"]["state"], state, "{command}");
            assert_eq!(job["virtualmachine"]["jobstatus"], 0, "{command}");
        }
        let named = [("id", &*id), ("name", "life2"), ("displayname", "New")];
        let renamed = lab.ask("updateVirtualMachine", &named);
        assert_eq!(renamed["virtualmachine"]["displayname"], "New");
        let refused = lab.refused("updateVirtualMachine", &[("id", &*id), ("name", "-life")]);
        assert!(
            refused.text.starts_with("Unable to execute API command updatevirtualmachine due to"),
            "{}",
            refused.text
        );
        lab.run("destroyVirtualMachine", &this);
        assert_eq!(lab.rows("listVirtualMachines", &this).len(), 0);
        assert_eq!(lab.by("root").column("listVirtualMachines", &this, "state"), ["Destroyed"]);
        assert_eq!(lab.by("prod").refused("recoverVirtualMachine", &this).code, 531);
        let expunge = [("id", &*id), ("expunge", "true")];
        assert_eq!(
            lab.fails("destroyVirtualMachine", &expunge),
            (530, "Account does not have permission for expunging.".to_owned())
        );
        lab.by("root").run("destroyVirtualMachine", &expunge);
        assert_eq!(lab.by("root").rows("listVirtualMachines", &this).len(), 0);
    }

    #[test]
    fn lists_lag_behind_the_job() {
        let mut lab = Lab::slow(5);
        let id = lab.id("listVirtualMachines", "node-1");
        let this = [("id", id.as_str())];
        let job = lab.ask("stopVirtualMachine", &this)["jobid"].clone();
        let listed = lab.rows("listVirtualMachines", &this).remove(0);
        assert_eq!((&listed["state"], &listed["jobid"]), (&"Running".into(), &job));
        lab.wait(5);
        let listed = lab.rows("listVirtualMachines", &this).remove(0);
        assert_eq!((&listed["state"], listed.get("jobid")), (&"Stopped".into(), None));
    }

    #[test]
    fn host_names_are_checked_and_unique_in_a_network() {
        let mut lab = Lab::new();
        let network = lab.id("listNetworks", "iso");
        let zone = lab.id("listZones", "zone-1");
        let mut refused = |name: &str| {
            let params = [
                ("zoneid", zone.as_str()),
                ("templateid", "t"),
                ("serviceofferingid", "s"),
                ("networkids", network.as_str()),
                ("name", name),
            ];
            lab.refused("deployVirtualMachine", &params)
        };
        assert_eq!(
            refused("node-1").text,
            "The vm with hostName node-1 already exists in the network domain: cs1cloud.internal; network=iso"
        );
        let bad = refused("bad_name");
        assert_eq!((bad.code, bad.class), (431, Some(9999)));
        deploy(&mut lab, "idle", "node-1", &[]);
        assert_eq!(lab.rows("listVirtualMachines", &[("name", "node-1")]).len(), 2);
    }

    #[test]
    fn the_first_machine_brings_up_the_router() {
        let mut lab = Lab::new();
        deploy(&mut lab, "idle", "first", &[("startvm", "false")]);
        let states = |lab: &mut Lab| lab.column("listNetworks", &[("name", "idle")], "state");
        assert_eq!(states(&mut lab), ["Allocated"]);
        let id = lab.id("listVirtualMachines", "first");
        lab.run("startVirtualMachine", &[("id", &id)]);
        assert_eq!(states(&mut lab), ["Implemented"]);
    }

    #[test]
    fn machines_of_others_fail_in_the_job() {
        let mut lab = Lab::new();
        let id = lab.id("listVirtualMachines", "stranger");
        assert_eq!(lab.fails("stopVirtualMachine", &[("id", &id)]).0, 530);
        assert_eq!(lab.refused("updateVirtualMachine", &[("id", &id), ("name", "x")]).code, 531);
    }
}
