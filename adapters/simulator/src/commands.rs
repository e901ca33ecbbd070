//! The commands of the simulator: one table that says for each its parameters, who may call it and what runs it.
//!
//! Commands of the User role that are not here yet behave as unknown APIs: stickiness policies, reserveIpAddress and
//! releaseIpAddress, createNetworkACLList and replaceNetworkACLList, listResourceDetails, port forwarding, static NAT and
//! everything about the life of virtual machines (see `Simulator::stop_vm` and its neighbours for that).

use serde_json::Value;

use crate::cloud::Cloud;
use crate::error::{ApiError, JobFailure};
use crate::jobs::{Accepted, JobKind, Work};
use crate::params::Params;
use crate::resources::account::Account;
use crate::resources::{
    account, api, firewall_rule, job, load_balancer_rule as rule, member, network,
    network_acl as acl, public_ip, tag, virtual_machine, vpc, zone,
};
use crate::table::Key;

/// A command of the API.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) name: &'static str,
    /// The root key where it is not the name in lower case with `response`.
    root: Option<&'static str>,
    pub(crate) params: &'static [Param],
    /// Whether "Project Kubernetes Service Role" allows it.
    pub(crate) restricted: bool,
    pub(crate) handler: Handler,
}

/// What runs a command.
#[derive(Debug)]
pub(crate) enum Handler {
    /// Answers at once and changes nothing.
    Read(fn(&Cloud, &Call) -> Result<Value, ApiError>),
    /// Exists, but only root admins may call it.
    Root,
    Job(JobHandler),
}

/// The two halves of an asynchronous command that happen with the request; the third is `Work::finish`.
#[derive(Debug)]
pub(crate) struct JobHandler {
    /// The last part of the Java class in `cmd` of a job.
    pub(crate) class: &'static str,
    pub(crate) kind: JobKind,
    /// What fails at once, and the rows of create commands.
    pub(crate) accept: fn(&mut Cloud, &Call) -> Result<Accepted, ApiError>,
    /// What the job does before it turns to the router.
    pub(crate) start: fn(&mut Cloud, &Call, &Accepted) -> Result<Work, JobFailure>,
}

/// One call of a command by an account.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) command: &'static Command,
    pub(crate) caller: Key<Account>,
    pub(crate) params: Params,
}

/// A parameter of a command.
#[derive(Debug)]
pub(crate) struct Param {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) required: bool,
    /// The release of its `since` annotation, which changes how odd ids are treated.
    pub(crate) since: Option<&'static str>,
}

/// Type of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    /// Text with a limit of its own, in characters.
    LongText(usize),
    Flag,
    Number,
    Id(Entity),
    Ids(Entity),
    List,
    Map,
}

/// Kind of object that an id names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entity {
    AclItem,
    AclList,
    Address,
    Domain,
    FirewallRule,
    Job,
    LoadBalancerRule,
    Network,
    Project,
    VirtualMachine,
    Vpc,
    Zone,
}

pub(crate) const fn must(name: &'static str, kind: Kind) -> Param {
    Param { name, kind, required: true, since: None }
}

pub(crate) const fn may(name: &'static str, kind: Kind) -> Param {
    Param { name, kind, required: false, since: None }
}

pub(crate) const fn since(name: &'static str, kind: Kind, release: &'static str) -> Param {
    Param { name, kind, required: false, since: Some(release) }
}

/// Parameters of every list command.
const LIST_PARAMS: &[Param] = &[
    may("keyword", Kind::Text),
    may("page", Kind::Number),
    may("pagesize", Kind::Number),
    may("listall", Kind::Flag),
    may("isrecursive", Kind::Flag),
    may("account", Kind::Text),
    may("domainid", Kind::Id(Entity::Domain)),
    may("projectid", Kind::Id(Entity::Project)),
    may("tags", Kind::Map),
    may("retrieveonlyresourcecount", Kind::Flag),
];

/// Parameters of every asynchronous command.
const JOB_PARAMS: &[Param] = &[may("customjobid", Kind::Text)];

const NO_PARAMS: &[Param] = &[];

impl Command {
    /// The command of an exact name.
    pub(crate) fn find(name: &str) -> Option<&'static Command> {
        COMMANDS.iter().find(|command| command.name == name)
    }

    /// The key under which answers and errors stand.
    pub(crate) fn root(&self) -> String {
        match self.root {
            Some(root) => root.to_owned(),
            None => format!("{}response", self.name.to_lowercase()),
        }
    }

    /// The name in error texts: the root key without `response`.
    pub(crate) fn error_name(&self) -> String {
        let root = self.root();
        root.strip_suffix("response").unwrap_or(&root).to_owned()
    }

    /// Own parameters first, then those of its kind.
    pub(crate) fn all_params(&self) -> impl Iterator<Item = &'static Param> {
        let common = match self.handler {
            Handler::Read(_) if self.name.starts_with("list") => LIST_PARAMS,
            Handler::Read(_) | Handler::Root => NO_PARAMS,
            Handler::Job(_) => JOB_PARAMS,
        };
        self.params.iter().chain(common)
    }
}

/// A command that answers at once. `restricted` tells whether the project role has it.
const fn read(
    name: &'static str,
    restricted: bool,
    params: &'static [Param],
    run: fn(&Cloud, &Call) -> Result<Value, ApiError>,
) -> Command {
    Command { name, root: None, params, restricted, handler: Handler::Read(run) }
}

const fn root_only(name: &'static str) -> Command {
    Command { name, root: None, params: NO_PARAMS, restricted: false, handler: Handler::Root }
}

const fn job(
    name: &'static str,
    restricted: bool,
    params: &'static [Param],
    handler: JobHandler,
) -> Command {
    Command { name, root: None, params, restricted, handler: Handler::Job(handler) }
}

/// Every command, by theme.
pub(crate) const COMMANDS: &[Command] = &[
    read("listZones", false, zone::LIST_PARAMS, zone::list),
    read("listCapabilities", false, NO_PARAMS, zone::capabilities),
    read("listApis", false, &[may("name", Kind::Text)], api::list),
    read("listProjects", false, account::LIST_PARAMS, account::list_projects),
    read("listNetworks", true, network::LIST_PARAMS, network::list),
    read("listVPCs", false, vpc::LIST_PARAMS, vpc::list),
    read("listVirtualMachines", true, virtual_machine::LIST_PARAMS, virtual_machine::list),
    read("queryAsyncJobResult", true, job::QUERY_PARAMS, job::query),
    read("listAsyncJobs", false, NO_PARAMS, job::list),
    root_only("listManagementServers"),
    root_only("listManagementServersMetrics"),
    root_only("addResourceDetail"),
    root_only("listHosts"),
    read("listPublicIpAddresses", true, public_ip::LIST_PARAMS, public_ip::list),
    job(
        "associateIpAddress",
        true,
        public_ip::ASSOCIATE_PARAMS,
        JobHandler {
            class: "user.address.AssociateIPAddrCmd",
            kind: JobKind::Associate,
            accept: public_ip::accept_associate,
            start: public_ip::start_associate,
        },
    ),
    job(
        "disassociateIpAddress",
        true,
        public_ip::DISASSOCIATE_PARAMS,
        JobHandler {
            class: "user.address.DisassociateIPAddrCmd",
            kind: JobKind::Release,
            accept: public_ip::accept_disassociate,
            start: public_ip::start_disassociate,
        },
    ),
    read("listLoadBalancerRules", true, rule::LIST_PARAMS, rule::list),
    job(
        "createLoadBalancerRule",
        true,
        rule::CREATE_PARAMS,
        JobHandler {
            class: "user.loadbalancer.CreateLoadBalancerRuleCmd",
            kind: JobKind::CreateRule,
            accept: crate::resources::create_rule::accept,
            start: crate::resources::create_rule::start,
        },
    ),
    job(
        "updateLoadBalancerRule",
        true,
        rule::UPDATE_PARAMS,
        JobHandler {
            class: "user.loadbalancer.UpdateLoadBalancerRuleCmd",
            kind: JobKind::UpdateRule,
            accept: Accepted::nothing,
            start: rule::start_update,
        },
    ),
    job(
        "deleteLoadBalancerRule",
        true,
        rule::ID_PARAMS,
        JobHandler {
            class: "user.loadbalancer.DeleteLoadBalancerRuleCmd",
            kind: JobKind::DeleteRule,
            accept: Accepted::nothing,
            start: rule::start_delete,
        },
    ),
    job(
        "assignToLoadBalancerRule",
        true,
        member::PARAMS,
        JobHandler {
            class: "user.loadbalancer.AssignToLoadBalancerRuleCmd",
            kind: JobKind::Assign,
            accept: Accepted::nothing,
            start: member::start_assign,
        },
    ),
    job(
        "removeFromLoadBalancerRule",
        true,
        member::PARAMS,
        JobHandler {
            class: "user.loadbalancer.RemoveFromLoadBalancerRuleCmd",
            kind: JobKind::Remove,
            accept: Accepted::nothing,
            start: member::start_remove,
        },
    ),
    read("listLoadBalancerRuleInstances", true, member::LIST_PARAMS, member::list),
    read("listFirewallRules", true, firewall_rule::LIST_PARAMS, firewall_rule::list),
    job(
        "createFirewallRule",
        true,
        firewall_rule::CREATE_PARAMS,
        JobHandler {
            class: "user.firewall.CreateFirewallRuleCmd",
            kind: JobKind::Firewall,
            accept: firewall_rule::accept_create,
            start: firewall_rule::start_create,
        },
    ),
    job(
        "updateFirewallRule",
        true,
        firewall_rule::ID_PARAMS,
        JobHandler {
            class: "user.firewall.UpdateFirewallRuleCmd",
            kind: JobKind::Firewall,
            accept: firewall_rule::accept_existing,
            start: firewall_rule::start_update,
        },
    ),
    job(
        "deleteFirewallRule",
        true,
        firewall_rule::ID_PARAMS,
        JobHandler {
            class: "user.firewall.DeleteFirewallRuleCmd",
            kind: JobKind::Firewall,
            accept: firewall_rule::accept_existing,
            start: firewall_rule::start_delete,
        },
    ),
    read("listNetworkACLLists", false, acl::LIST_LISTS_PARAMS, acl::list_lists),
    read("listNetworkACLs", true, acl::LIST_PARAMS, acl::list),
    job(
        "createNetworkACL",
        true,
        acl::CREATE_PARAMS,
        JobHandler {
            class: "user.network.CreateNetworkACLCmd",
            kind: JobKind::Acl,
            accept: crate::resources::change_acl::accept_create,
            start: crate::resources::change_acl::start_create,
        },
    ),
    Command {
        name: "updateNetworkACLItem",
        root: Some("createnetworkaclresponse"),
        params: acl::UPDATE_PARAMS,
        restricted: false,
        handler: Handler::Job(JobHandler {
            class: "user.network.UpdateNetworkACLItemCmd",
            kind: JobKind::Acl,
            accept: crate::resources::change_acl::accept_existing,
            start: crate::resources::change_acl::start_update,
        }),
    },
    job(
        "deleteNetworkACL",
        true,
        acl::ID_PARAMS,
        JobHandler {
            class: "user.network.DeleteNetworkACLCmd",
            kind: JobKind::Acl,
            accept: crate::resources::change_acl::accept_existing,
            start: crate::resources::change_acl::start_delete,
        },
    ),
    read("listTags", false, tag::LIST_PARAMS, tag::list),
    job(
        "createTags",
        false,
        tag::CREATE_PARAMS,
        JobHandler {
            class: "user.tag.CreateTagsCmd",
            kind: JobKind::Tags,
            accept: Accepted::nothing,
            start: tag::start_create,
        },
    ),
    job(
        "deleteTags",
        false,
        tag::DELETE_PARAMS,
        JobHandler {
            class: "user.tag.DeleteTagsCmd",
            kind: JobKind::Tags,
            accept: Accepted::nothing,
            start: tag::start_delete,
        },
    ),
];
