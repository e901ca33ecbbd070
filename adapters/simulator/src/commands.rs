//! The commands of the simulator: one table that says for each its parameters, who may call it and
//! what runs it.
//!
//! Commands of the User role that are not here yet behave as unknown APIs: stickiness policies,
//! reserveIpAddress and releaseIpAddress, createNetworkACLList and replaceNetworkACLList,
//! listResourceDetails, changes of port forwarding, static NAT and everything about the life of virtual
//! machines (see `Simulator::stop_vm` and its neighbours for that).

use serde_json::Value;

use self::Roles::{All, User};
use crate::cloud::Cloud;
use crate::error::{ApiError, JobFailure};
use crate::jobs::{Accepted, JobKind, Work};
use crate::params::Params;
use crate::resources::account::Account;
use crate::resources::{
    account, api, change_acl, create_rule, firewall_rule, job, load_balancer_rule as rule, member,
    network, network_acl as acl, port_forward, public_ip, tag, virtual_machine, vpc, zone,
};
use crate::table::Key;

/// A command of the API.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) name: &'static str,
    /// The root key where it is not the name in lower case with `response`.
    root: Option<&'static str>,
    pub(crate) params: &'static [Param],
    pub(crate) roles: Roles,
    pub(crate) handler: Handler,
}

/// What runs a command.
#[derive(Debug)]
pub(crate) enum Handler {
    /// Answers at once and changes nothing.
    Read(Read),
    /// Exists, but nobody here may call it.
    Missing,
    Job(JobHandler),
}

/// Which roles may call a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Roles {
    /// Users, and "Project Kubernetes Service Role" too.
    All,
    /// Users.
    User,
    /// Root admins, of which there are none.
    Root,
}

/// Answers at once.
type Read = fn(&Cloud, &Call) -> Result<Value, ApiError>;
/// Decides what fails at once, and makes the rows of create commands.
type Accept = fn(&mut Cloud, &Call) -> Result<Accepted, ApiError>;
/// Does what the job does before it turns to the router.
type Start = fn(&mut Cloud, &Call, &Accepted) -> Result<Work, JobFailure>;

/// The two halves of an asynchronous command that happen with the request; the third is
/// `Work::finish`.
#[derive(Debug)]
pub(crate) struct JobHandler {
    /// The last part of the Java class in `cmd` of a job.
    pub(crate) class: &'static str,
    pub(crate) kind: JobKind,
    pub(crate) accept: Accept,
    pub(crate) start: Start,
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
    PortForward,
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
    /// The same command with a root key of its own.
    const fn under(mut self, root: &'static str) -> Self {
        self.root = Some(root);
        self
    }

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
            Handler::Read(_) | Handler::Missing => NO_PARAMS,
            Handler::Job(_) => JOB_PARAMS,
        };
        self.params.iter().chain(common)
    }
}

/// A command that answers at once.
const fn read(name: &'static str, roles: Roles, params: &'static [Param], run: Read) -> Command {
    Command { name, root: None, params, roles, handler: Handler::Read(run) }
}

/// A command that is only known to exist.
const fn root_only(name: &'static str) -> Command {
    Command { name, root: None, params: NO_PARAMS, roles: Roles::Root, handler: Handler::Missing }
}

/// An asynchronous command.
const fn run(
    name: &'static str,
    roles: Roles,
    params: &'static [Param],
    class: &'static str,
    kind: JobKind,
    accept: Accept,
    start: Start,
) -> Command {
    Command {
        name,
        root: None,
        params,
        roles,
        handler: Handler::Job(JobHandler { class, kind, accept, start }),
    }
}

/// Every command, by theme: name, roles, parameters, and what runs it. Jobs also have the last part of
/// their Java class and their kind.
#[rustfmt::skip]
pub(crate) const COMMANDS: &[Command] = &[
    read("listZones", User, zone::LIST_PARAMS, zone::list),
    read("listCapabilities", User, NO_PARAMS, zone::capabilities),
    read("listApis", User, api::LIST_PARAMS, api::list),
    read("listProjects", User, account::LIST_PARAMS, account::list_projects),
    read("listNetworks", All, network::LIST_PARAMS, network::list),
    read("listVPCs", User, vpc::LIST_PARAMS, vpc::list),
    read("listVirtualMachines", All, virtual_machine::LIST_PARAMS, virtual_machine::list),

    read("queryAsyncJobResult", All, job::QUERY_PARAMS, job::query),
    read("listAsyncJobs", User, NO_PARAMS, job::list),

    root_only("listManagementServers"),
    root_only("listManagementServersMetrics"),
    root_only("addResourceDetail"),
    root_only("listHosts"),

    read("listPublicIpAddresses", All, public_ip::LIST_PARAMS, public_ip::list),
    run("associateIpAddress", All, public_ip::ASSOCIATE_PARAMS,
        "user.address.AssociateIPAddrCmd", JobKind::Associate,
        public_ip::accept_associate, public_ip::start_associate),
    run("disassociateIpAddress", All, public_ip::DISASSOCIATE_PARAMS,
        "user.address.DisassociateIPAddrCmd", JobKind::Release,
        public_ip::accept_disassociate, public_ip::start_disassociate),

    read("listLoadBalancerRules", All, rule::LIST_PARAMS, rule::list),
    run("createLoadBalancerRule", All, rule::CREATE_PARAMS,
        "user.loadbalancer.CreateLoadBalancerRuleCmd", JobKind::CreateRule,
        create_rule::accept, create_rule::start),
    run("updateLoadBalancerRule", All, rule::UPDATE_PARAMS,
        "user.loadbalancer.UpdateLoadBalancerRuleCmd", JobKind::UpdateRule,
        Accepted::nothing, rule::start_update),
    run("deleteLoadBalancerRule", All, rule::ID_PARAMS,
        "user.loadbalancer.DeleteLoadBalancerRuleCmd", JobKind::DeleteRule,
        Accepted::nothing, rule::start_delete),

    read("listLoadBalancerRuleInstances", All, member::LIST_PARAMS, member::list),
    run("assignToLoadBalancerRule", All, member::PARAMS,
        "user.loadbalancer.AssignToLoadBalancerRuleCmd", JobKind::Assign,
        Accepted::nothing, member::start_assign),
    run("removeFromLoadBalancerRule", All, member::PARAMS,
        "user.loadbalancer.RemoveFromLoadBalancerRuleCmd", JobKind::Remove,
        Accepted::nothing, member::start_remove),

    read("listFirewallRules", All, firewall_rule::LIST_PARAMS, firewall_rule::list),
    run("createFirewallRule", All, firewall_rule::CREATE_PARAMS,
        "user.firewall.CreateFirewallRuleCmd", JobKind::Firewall,
        firewall_rule::accept_create, firewall_rule::start_create),
    run("updateFirewallRule", All, firewall_rule::ID_PARAMS,
        "user.firewall.UpdateFirewallRuleCmd", JobKind::Firewall,
        firewall_rule::accept_existing, firewall_rule::start_update),
    run("deleteFirewallRule", All, firewall_rule::ID_PARAMS,
        "user.firewall.DeleteFirewallRuleCmd", JobKind::Firewall,
        firewall_rule::accept_existing, firewall_rule::start_delete),

    read("listPortForwardingRules", User, port_forward::LIST_PARAMS, port_forward::list),

    read("listNetworkACLLists", User, acl::LIST_LISTS_PARAMS, acl::list_lists),
    read("listNetworkACLs", All, acl::LIST_PARAMS, acl::list),
    run("createNetworkACL", All, acl::CREATE_PARAMS,
        "user.network.CreateNetworkACLCmd", JobKind::Acl,
        change_acl::accept_create, change_acl::start_create),
    run("updateNetworkACLItem", User, acl::UPDATE_PARAMS,
        "user.network.UpdateNetworkACLItemCmd", JobKind::Acl,
        change_acl::accept_existing, change_acl::start_update).under("createnetworkaclresponse"),
    run("deleteNetworkACL", All, acl::ID_PARAMS,
        "user.network.DeleteNetworkACLCmd", JobKind::Acl,
        change_acl::accept_existing, change_acl::start_delete),

    read("listTags", User, tag::LIST_PARAMS, tag::list),
    run("createTags", User, tag::CREATE_PARAMS,
        "user.tag.CreateTagsCmd", JobKind::Tags,
        Accepted::nothing, tag::start_create),
    run("deleteTags", User, tag::DELETE_PARAMS,
        "user.tag.DeleteTagsCmd", JobKind::Tags,
        Accepted::nothing, tag::start_delete),
];
