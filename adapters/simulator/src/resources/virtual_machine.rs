//! Virtual machines and their NICs: what they are and how they are listed. `vm_life.rs` and
//! `vm_nics.rs` change them.

use std::collections::BTreeMap;

use serde_json::json;

use crate::answer::Answer;
use crate::cloud::{Cloud, Extra, Owner};
use crate::commands::{Call, Entity, Kind, Param, may, since};
use crate::error::ApiError;
use crate::lists::{Scope, TagFilter, answer, contains, equal, keyword_matches};
use crate::object::{Field, Object};
use crate::params::Params;
use crate::resources::network::Network;
use crate::resources::public_ip::PublicIp;
use crate::resources::tag::{ResourceType, full_tags, tags_of};
use crate::resources::user::User;
use crate::resources::vm_life::STARTED;
use crate::table::{Key, Row};
use crate::versions::Feature;
use crate::world::VmState;

/// A virtual machine.
#[derive(Debug, Clone)]
pub(crate) struct VirtualMachine {
    pub(crate) id: String,
    /// The host name, which `name` filters and node names mean.
    pub(crate) name: String,
    pub(crate) display_name: String,
    pub(crate) owner: Owner,
    /// The user who made it.
    pub(crate) creator: Option<Key<User>>,
    pub(crate) state: VmState,
    pub(crate) created: String,
    /// When its state changed last; absent before the first time.
    pub(crate) updated: Option<String>,
    /// In the order of their device ids.
    pub(crate) nics: Vec<Nic>,
    pub(crate) offering: ServiceOffering,
    pub(crate) extra: Extra,
}

/// A network interface of a VM.
#[derive(Debug, Clone)]
pub(crate) struct Nic {
    pub(crate) id: String,
    pub(crate) network: Key<Network>,
    pub(crate) address: String,
    /// Id and address.
    pub(crate) secondary: Vec<(String, String)>,
    pub(crate) mac: String,
    pub(crate) default: bool,
    pub(crate) extra: Extra,
}

/// Size of a VM; memory in MiB, speed in MHz.
#[derive(Debug, Clone)]
pub(crate) struct ServiceOffering {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) cpus: u32,
    pub(crate) speed: u32,
    pub(crate) memory: u32,
}

impl Row for VirtualMachine {
    fn id(&self) -> &str {
        &self.id
    }
}

impl VirtualMachine {
    /// Destroyed machines are hidden from users and from the members of rules.
    pub(crate) fn is_visible(&self) -> bool {
        match self.state {
            VmState::Destroyed | VmState::Expunging => false,
            VmState::Starting
            | VmState::Running
            | VmState::Stopping
            | VmState::Stopped
            | VmState::Migrating
            | VmState::Error
            | VmState::Unknown => true,
        }
    }

    /// Whether it was started once and no host runs it.
    fn is_down(&self) -> bool {
        let stopped = matches!(
            self.state,
            VmState::Stopped | VmState::Destroyed | VmState::Expunging | VmState::Error
        );
        stopped && self.extra.contains_key(STARTED)
    }

    /// The interface in a network.
    pub(crate) fn nic_in(&self, network: Key<Network>) -> Option<&Nic> {
        self.nics.iter().find(|nic| nic.network == network)
    }

    /// Whether it has this address in this network now.
    pub(crate) fn holds(&self, network: Key<Network>, address: &str) -> bool {
        self.nics.iter().filter(|nic| nic.network == network).any(|nic| nic.holds(address))
    }
}

impl Nic {
    /// Whether the address is its primary or a secondary one.
    pub(crate) fn holds(&self, address: &str) -> bool {
        self.address == address || self.secondary.iter().any(|(_, other)| other == address)
    }
}

pub(crate) const LIST_PARAMS: &[Param] = &[
    may("id", Kind::Id(Entity::VirtualMachine)),
    since("ids", Kind::Ids(Entity::VirtualMachine), "4.4"),
    may("name", Kind::Text),
    may("state", Kind::Text),
    may("details", Kind::List),
    may("zoneid", Kind::Id(Entity::Zone)),
    may("networkid", Kind::Id(Entity::Network)),
    may("vpcid", Kind::Id(Entity::Vpc)),
];

/// listVirtualMachines, oldest first. Only root admins see destroyed machines.
pub(crate) fn list(cloud: &Cloud, call: &Call) -> Result<Answer, ApiError> {
    let params = &call.params;
    if params.text("id").is_some() && params.text("ids").is_some() {
        return Err(ApiError::invalid("Specify either id or ids but not both parameters"));
    }
    let details = Details::read(params)?;
    let scope = Scope::of(cloud, call)?;
    let tags = TagFilter::read(params)?;
    let sees_destroyed = cloud.is_root(call.caller);
    // An empty list of ids is no filter.
    let ids = params.keys("ids").filter(|_| params.text("ids") != Some(""));
    let mut rows: Vec<_> = cloud
        .vms
        .iter()
        .filter(|(key, row)| {
            (row.is_visible() || sees_destroyed)
                && scope.covers(row.owner)
                && params.names("id", *key)
                && ids.as_ref().is_none_or(|ids| ids.contains(key))
                && params.is_in_zone()
                && params.agrees("name", |name| is_named(cloud, row, name))
                && params.agrees("state", |state| has_state(row, state))
                && params.key("networkid").is_none_or(|network| row.nic_in(network).is_some())
                && params.key("vpcid").is_none_or(|vpc| {
                    row.nics.iter().any(|nic| {
                        cloud.networks.get(nic.network).and_then(Network::vpc) == Some(vpc)
                    })
                })
                && matches_keyword(call, row)
                && tags.passes(cloud, ResourceType::UserVm, &row.id)
        })
        .collect();
    // Asked for both, CloudStack shows machines of projects before the caller's own.
    rows.sort_by_key(|(_, row)| matches!(row.owner, Owner::Account(_)));
    let render = renderer(cloud, &details);
    answer(cloud, call, "virtualmachine", rows, |(key, row)| {
        let shown = render(row);
        if sees_destroyed {
            let name = instance_name(cloud, key, row);
            shown.with("displayvm", true).with("instancename", name)
        } else {
            shown
        }
    })
}

/// The name on the hypervisor, which root admins see: the numbers of owner and machine.
fn instance_name(cloud: &Cloud, key: Key<VirtualMachine>, row: &VirtualMachine) -> String {
    let owner = match row.owner {
        Owner::Account(account) => account.number(),
        Owner::Project(project) => {
            let members = cloud.projects.get(project).map(|project| &project.members);
            members.and_then(|members| members.first()).map_or(0, |first| first.number())
        }
    };
    format!("i-{owner}-{}-VM", key.number())
}

fn is_named(cloud: &Cloud, row: &VirtualMachine, name: &str) -> bool {
    if cloud.version.has(Feature::RuleAndVmNamesMatchExactly) {
        equal(&row.name, name)
    } else {
        contains(&row.name, name)
    }
}

fn has_state(row: &VirtualMachine, state: &str) -> bool {
    equal(state, "Present") || equal(row.state.text(), state)
}

fn matches_keyword(call: &Call, row: &VirtualMachine) -> bool {
    let Some(keyword) = call.params.text("keyword") else {
        return true;
    };
    let mut texts = vec![row.name.as_str(), row.display_name.as_str()];
    texts.extend(row.nics.iter().map(|nic| nic.address.as_str()));
    keyword_matches(call, &texts) || equal(row.state.text(), keyword)
}

/// Which parts of a VM an answer shows.
#[derive(Debug, Clone)]
pub(crate) struct Details {
    wanted: Vec<String>,
}

const KNOWN_DETAILS: &[&str] = &[
    "all", "group", "nics", "stats", "secgrp", "tmpl", "servoff", "diskoff", "backoff", "iso",
    "volume", "min", "affgrp", "vnfnics",
];

/// Fields that appear only with a detail.
const DETAIL_FIELDS: &[(&str, &[&str])] = &[
    ("iso", &["isos", "isomaxcount"]),
    ("volume", &["rootdeviceid", "rootdevicetype"]),
    ("servoff", &["serviceofferingid", "serviceofferingname", "cpunumber", "cpuspeed", "memory"]),
    (
        "tmpl",
        &[
            "passwordenabled",
            "templatedisplaytext",
            "templateformat",
            "templateid",
            "templatename",
            "templatetype",
        ],
    ),
    (
        "stats",
        &[
            "cpuused",
            "diskioread",
            "diskiowrite",
            "diskkbsread",
            "diskkbswrite",
            "memoryintfreekbs",
            "memorykbs",
            "memorytargetkbs",
            "networkkbsread",
            "networkkbswrite",
        ],
    ),
];

impl Details {
    /// Everything, as other commands show members.
    pub(crate) fn all() -> Self {
        Self { wanted: vec!["all".to_owned()] }
    }

    /// Interfaces, as the commands about them show a machine.
    pub(crate) fn nics() -> Self {
        Self { wanted: vec!["min".to_owned(), "nics".to_owned()] }
    }

    fn read(params: &Params) -> Result<Self, ApiError> {
        let wanted = params.list("details").filter(|wanted| !wanted.is_empty());
        let Some(wanted) = wanted else {
            return Ok(Self::all());
        };
        if wanted.iter().all(|detail| KNOWN_DETAILS.contains(&detail.as_str())) {
            return Ok(Self { wanted });
        }
        Err(ApiError::invalid(format!(
            "The details parameter contains a non permitted value. The allowed values are [{}]",
            KNOWN_DETAILS.join(", ")
        )))
    }

    fn show(&self, detail: &str) -> bool {
        self.wanted.iter().any(|wanted| wanted == "all" || wanted == detail)
    }
}

/// What renders machines, for answers that may show many: public addresses are looked through once.
pub(crate) fn renderer<'a>(
    cloud: &'a Cloud,
    details: &Details,
) -> impl Fn(&'a VirtualMachine) -> Object<'a> {
    let mapped = static_nats(cloud);
    move |row| rendered(cloud, row, details, mapped.get(row.id.as_str()).copied())
}

pub(crate) fn json<'a>(cloud: &'a Cloud, row: &'a VirtualMachine, details: &Details) -> Object<'a> {
    renderer(cloud, details)(row)
}

fn rendered<'a>(
    cloud: &'a Cloud,
    row: &'a VirtualMachine,
    details: &Details,
    public: Option<&'a PublicIp>,
) -> Object<'a> {
    let creator = row.creator.and_then(|key| cloud.users.get(key));
    let nics = shown_nics(cloud, row, details);
    let host = (row.state == VmState::Running).then_some("Enabled");
    let job = cloud.jobs.running_on(&row.id);
    let lowest = nics.first().map(|(_, nic)| nic.address.as_str());
    let mut object = Object::new()
        .with("id", row.id.as_str())
        .with("name", row.name.as_str())
        .with("displayname", row.display_name.as_str())
        .maybe("userid", creator.map(|user| user.id.as_str()))
        .maybe("username", creator.map(|user| user.name.as_str()))
        .with("state", row.state.text())
        .with("created", row.created.as_str())
        .maybe("lastupdated", row.updated.as_deref())
        .maybe("hostcontrolstate", host)
        .with("hypervisor", "Simulator")
        .with("serviceofferingid", row.offering.id.as_str())
        .with("serviceofferingname", row.offering.name.as_str())
        .with("cpunumber", row.offering.cpus)
        .with("cpuspeed", row.offering.speed)
        .with("memory", row.offering.memory)
        .with("affinitygroup", json!([]))
        .with("deleteprotection", false)
        .with("details", json!({}))
        .with("haenable", false)
        .with("hasannotations", false)
        .with("isdynamicallyscalable", false)
        .with("isos", json!([]))
        .with("passwordenabled", false)
        .with("rootdeviceid", 0)
        .with("rootdevicetype", "ROOT")
        .with("securitygroup", json!([]))
        .with("nic", nics_json(cloud, row, &nics, public))
        .maybe("publicip", public.map(|public| public.address.to_string()))
        .maybe("publicipid", public.map(|public| public.id.as_str()))
        .maybe("ipaddress", lowest)
        .maybe("jobid", job)
        .maybe("jobstatus", job.map(|_| 0))
        .with("tags", full_tags(cloud, ResourceType::UserVm, &row.id))
        .merge(cloud.zone_fields())
        .merge(cloud.owner_fields(row.owner))
        .merge_extra(&row.extra);
    for (detail, fields) in DETAIL_FIELDS {
        if !details.show(detail) {
            object = object.without(fields);
        }
    }
    object.of_release("virtualmachine", &cloud.version)
}

/// The NICs of an answer by device. CloudStack reads one row per NIC and tag and forgets the
/// details after the first row: with several rows, NICs of the later ones show although nobody
/// asked for NICs.
fn shown_nics<'a>(
    cloud: &Cloud,
    row: &'a VirtualMachine,
    details: &Details,
) -> Vec<(usize, &'a Nic)> {
    let ordered = cloud.version.has(Feature::NicDevices);
    let several_tags = || tags_of(cloud, ResourceType::UserVm, &row.id).nth(1).is_some();
    let mut nics: Vec<_> = row
        .nics
        .iter()
        .enumerate()
        .filter(|(device, _)| details.show("nics") || *device > 0 || several_tags())
        .collect();
    if !ordered {
        // No order is promised: the other one tells who relies on it.
        nics.reverse();
    }
    nics
}

/// The public addresses that are mapped to machines as a whole, by the ids of these. Of several of
/// a machine the oldest counts.
fn static_nats(cloud: &Cloud) -> BTreeMap<&str, &PublicIp> {
    let newest_first = cloud.addresses.iter().rev();
    newest_first
        .filter_map(|(_, address)| {
            let vm = cloud.vms.get(address.static_nat?)?;
            Some((vm.id.as_str(), address))
        })
        .collect()
}

/// What an interface of a machine that went down does not show.
const NIC_FIELDS: &[&str] = &["broadcasturi", "isolationuri"];

fn nics_json<'a>(
    cloud: &'a Cloud,
    row: &VirtualMachine,
    nics: &[(usize, &'a Nic)],
    public: Option<&'a PublicIp>,
) -> Field<'a> {
    let hidden = if row.is_down() { NIC_FIELDS } else { &[] };
    let shown = |(device, nic): &(usize, &'a Nic)| {
        let public = public.filter(|public| public.network == Some(nic.network));
        nic_json(cloud, nic, *device)
            .maybe("publicip", public.map(|public| public.address.to_string()))
            .maybe("publicipid", public.map(|public| public.id.as_str()))
            .without(hidden)
    };
    nics.iter().map(shown).collect()
}

fn nic_json<'a>(cloud: &'a Cloud, nic: &'a Nic, device: usize) -> Object<'a> {
    let network = cloud.networks.get(nic.network);
    // CloudStack fills in the VPC for the row that makes the VM's entry only.
    let vpc =
        network.filter(|_| device == 0).and_then(Network::vpc).and_then(|key| cloud.vpcs.get(key));
    let secondary: Field<'_> = nic
        .secondary
        .iter()
        .map(|(id, address)| {
            Object::new().with("id", id.as_str()).with("ipaddress", address.as_str())
        })
        .collect();
    let enabled = cloud.version.has(Feature::NicEnabled).then_some(true);
    let has_devices = cloud.version.has(Feature::NicDevices);
    Object::new()
        .with("id", nic.id.as_str())
        .maybe("networkid", network.map(|network| network.id.as_str()))
        .maybe("networkname", network.map(|network| network.name.as_str()))
        .maybe("netmask", network.map(|network| network.cidr.netmask().to_string()))
        .maybe("gateway", network.map(|network| network.gateway.as_str()))
        .with("ipaddress", nic.address.as_str())
        .with("secondaryip", secondary)
        .with("macaddress", nic.mac.as_str())
        .with("isdefault", nic.default)
        .maybe("deviceid", has_devices.then(|| device.to_string()))
        .with("traffictype", "Guest")
        .with("type", "Isolated")
        .with("extradhcpoption", json!([]))
        .maybe("enabled", enabled)
        .maybe("vpcid", vpc.map(|vpc| vpc.id.as_str()))
        .maybe("vpcname", vpc.map(|vpc| vpc.name.as_str()))
        .merge_extra(&nic.extra)
}

#[cfg(test)]
mod tests {
    use crate::testing::Lab;

    #[test]
    fn names_match_exactly_but_for_case_and_keywords_do_not() {
        let mut lab = Lab::new();
        assert_eq!(lab.column("listVirtualMachines", &[("name", "NODE-1")], "name"), ["node-1"]);
        assert_eq!(
            lab.column("listVirtualMachines", &[("keyword", "node_1")], "name"),
            ["node-1", "tnode-1"]
        );
        let mut old = Lab::on("4.16.0");
        assert_eq!(old.rows("listVirtualMachines", &[("name", "ode-1")]).len(), 2);
        assert_eq!(lab.rows("listVirtualMachines", &[("state", "bogus")]).len(), 0);
        assert_eq!(lab.rows("listVirtualMachines", &[("state", "Running")]).len(), 3);
    }

    #[test]
    fn details_decide_which_parts_are_shown() {
        let mut lab = Lab::new();
        let mut vm = |details: &str| {
            lab.rows("listVirtualMachines", &[("name", "node-1"), ("details", details)]).remove(0)
        };
        let all = vm("");
        assert_eq!((&all["memory"], &all["ipaddress"]), (&1024.into(), &"10.1.1.11".into()));
        let small = vm("min");
        assert_eq!((small.get("memory"), small.get("ipaddress")), (None, None));
        assert_eq!(small["nic"], serde_json::json!([]));
        let nics = vm("min,nics");
        assert_eq!(nics["nic"][0]["deviceid"], "0");
        assert_eq!(nics["nic"][0]["isdefault"], true);
        let refused = lab.refused("listVirtualMachines", &[("details", "bogus")]);
        assert!(refused.text.starts_with("The details parameter contains a non permitted value."));
    }

    #[test]
    fn ids_leave_out_what_is_hidden_and_empty_ids_filter_nothing() {
        let mut lab = Lab::new();
        let one = lab.id("listVirtualMachines", "node-1");
        let stranger = lab.id("listVirtualMachines", "stranger");
        let both = format!("{stranger},{}", one.to_uppercase());
        assert_eq!(lab.column("listVirtualMachines", &[("ids", &both)], "name"), ["node-1"]);
        assert_eq!(lab.rows("listVirtualMachines", &[("ids", "")]).len(), 3);
        assert_eq!(lab.rows("listVirtualMachines", &[("id", &stranger)]).len(), 0);
        let refused = lab.refused("listVirtualMachines", &[("id", &one), ("ids", &one)]);
        assert_eq!(refused.text, "Specify either id or ids but not both parameters");
    }

    #[test]
    fn networks_and_vpcs_filter_by_interface() {
        let mut lab = Lab::new();
        let (iso, vpc) = (lab.id("listNetworks", "iso"), lab.id("listVPCs", "vpc"));
        assert_eq!(
            lab.column("listVirtualMachines", &[("networkid", &iso)], "name"),
            ["node-1", "node-2"]
        );
        assert_eq!(lab.column("listVirtualMachines", &[("vpcid", &vpc)], "name"), ["tnode-1"]);
    }
}
