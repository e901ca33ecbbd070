//! The commands of the simulator: one table that says for each its parameters, who may call it and
//! what runs it.
//!
//! Commands that are not here behave as unknown APIs.

use crate::answer::Answer;
use crate::cloud::Cloud;
use crate::error::{ApiError, JobFailure};
use crate::jobs::{Accepted, JobKind, Work};
use crate::params::Params;
use crate::resources::account::Account;
use crate::resources::user::User;
use crate::resources::{
    account, api, associate_ip, change_acl, change_acl_list, create_network, create_rule,
    firewall_rule, job, load_balancer_rule as rule, member, network, network_acl as acl,
    port_forward, public_ip, reserved_ip, resource_limit, static_nat, stickiness, tag, user,
    virtual_machine, vm_life, vm_nics, vpc, zone,
};
use crate::table::Key;
use crate::throttle;
use crate::versions::{Version, numbers};

/// A command of the API.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) name: &'static str,
    /// The root key where it is not the name in lower case with `response`.
    root: Option<&'static str>,
    pub(crate) params: &'static [Param],
    pub(crate) roles: Roles,
    /// The release that brought it; what is older than 4.15 needs none.
    since: Option<[u16; 3]>,
    pub(crate) handler: Handler,
}

/// What runs a command.
#[derive(Debug)]
pub(crate) enum Handler {
    /// Answers at once and changes nothing.
    Read(Read),
    /// Answers at once and changes something.
    Change(Change),
    /// Is only known to exist: a user may not call it, and an admin gets an error.
    Missing,
    Job(JobHandler),
}

/// Which roles may call a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Roles {
    /// Users and admins, and "Project Kubernetes Service Role" too.
    All,
    /// Users and admins.
    User,
    /// Admins of a domain or of all.
    Domain,
    /// Root admins.
    Root,
}

/// Answers at once.
type Read = fn(&Cloud, &Call) -> Result<Answer, ApiError>;
/// Changes and answers at once.
type Change = fn(&mut Cloud, &Call) -> Result<Answer, ApiError>;
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

/// One call of a command by a user of an account.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) command: &'static Command,
    pub(crate) caller: Key<Account>,
    pub(crate) user: Key<User>,
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
    /// Whether releases before that have it, too, without the annotation.
    earlier: bool,
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
    Account,
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
    Stickiness,
    User,
    VirtualMachine,
    Vpc,
    VpcOffering,
    Zone,
}

pub(crate) const fn must(name: &'static str, kind: Kind) -> Param {
    Param { name, kind, required: true, since: None, earlier: false }
}

pub(crate) const fn may(name: &'static str, kind: Kind) -> Param {
    Param { name, kind, required: false, since: None, earlier: false }
}

pub(crate) const fn since(name: &'static str, kind: Kind, release: &'static str) -> Param {
    Param { name, kind, required: false, since: Some(release), earlier: false }
}

/// A parameter that means something else, or is refused, before its release.
pub(crate) const fn changed(name: &'static str, kind: Kind, release: &'static str) -> Param {
    Param { name, kind, required: false, since: Some(release), earlier: true }
}

impl Param {
    /// Whether a release has it; an older one ignores it like any unknown name.
    fn is_known(&self, version: &Version) -> bool {
        self.earlier || self.is_of(version)
    }

    /// Whether its `since` annotation holds in a release.
    fn is_of(&self, version: &Version) -> bool {
        self.since.and_then(numbers).is_none_or(|since| version.reaches(since))
    }

    /// Its annotation, as a release has it.
    pub(crate) fn annotation(&self, version: &Version) -> Option<&'static str> {
        self.since.filter(|_| self.is_of(version))
    }
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

    /// The same command, unknown before a release.
    const fn from(mut self, release: [u16; 3]) -> Self {
        self.since = Some(release);
        self
    }

    /// The commands of a release.
    pub(crate) fn all(version: &Version) -> impl Iterator<Item = &'static Command> {
        COMMANDS.iter().filter(|command| command.since.is_none_or(|since| version.reaches(since)))
    }

    /// The command of an exact name in a release.
    pub(crate) fn find(name: &str, version: &Version) -> Option<&'static Command> {
        Self::all(version).find(|command| command.name == name)
    }

    /// Whether the command can change something: asynchronous commands can, and so can a few that
    /// answer at once.
    pub(crate) fn mutates(&self) -> bool {
        match self.handler {
            Handler::Job(_) | Handler::Change(_) => true,
            Handler::Read(_) | Handler::Missing => false,
        }
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

    /// The parameters it has in a release: its own first, then those of its kind.
    pub(crate) fn all_params(&self, version: &Version) -> impl Iterator<Item = &'static Param> {
        let common = match self.handler {
            Handler::Read(_) if self.name.starts_with("list") => LIST_PARAMS,
            Handler::Read(_) | Handler::Change(_) | Handler::Missing => NO_PARAMS,
            Handler::Job(_) => JOB_PARAMS,
        };
        self.params.iter().chain(common).filter(|param| param.is_known(version))
    }
}

/// A command that answers at once.
const fn read(name: &'static str, roles: Roles, params: &'static [Param], run: Read) -> Command {
    Command { name, root: None, params, roles, since: None, handler: Handler::Read(run) }
}

/// A command that changes something and answers at once.
const fn change(
    name: &'static str,
    roles: Roles,
    params: &'static [Param],
    run: Change,
) -> Command {
    Command { name, root: None, params, roles, since: None, handler: Handler::Change(run) }
}

/// A command that is only known to exist.
const fn root_only(name: &'static str) -> Command {
    let handler = Handler::Missing;
    Command { name, root: None, params: NO_PARAMS, roles: Roles::Root, since: None, handler }
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
        since: None,
        handler: Handler::Job(JobHandler { class, kind, accept, start }),
    }
}

/// Every command, by theme: name, roles, parameters, and what runs it. Jobs also have the last part of
/// their Java class and their kind.
#[rustfmt::skip]
const COMMANDS: &[Command] = &[
    read("listZones", Roles::User, zone::LIST_PARAMS, zone::list),
    read("listCapabilities", Roles::User, NO_PARAMS, zone::capabilities),
    read("listApis", Roles::User, api::LIST_PARAMS, api::list),
    read("listProjects", Roles::User, account::LIST_PARAMS, account::list_projects),
    read("listNetworks", Roles::All, network::LIST_PARAMS, network::list),
    read("listVPCs", Roles::User, vpc::LIST_PARAMS, vpc::list),
    run("createVPCOffering", Roles::Root, create_network::OFFERING_PARAMS,
        "admin.vpc.CreateVPCOfferingCmd", JobKind::Other,
        create_network::accept_offering, create_network::start_offering),
    run("updateVPCOffering", Roles::Root, create_network::UPDATE_OFFERING_PARAMS,
        "admin.vpc.UpdateVPCOfferingCmd", JobKind::Other,
        create_network::accept_update_offering, create_network::start_update_offering),
    run("createVPC", Roles::User, create_network::VPC_PARAMS,
        "user.vpc.CreateVPCCmd", JobKind::Other,
        create_network::accept_vpc, create_network::start_vpc),
    change("createNetwork", Roles::User, create_network::NETWORK_PARAMS, create_network::create),
    read("listVirtualMachines", Roles::All, virtual_machine::LIST_PARAMS, virtual_machine::list),

    run("deployVirtualMachine", Roles::User, vm_life::DEPLOY_PARAMS,
        "user.vm.DeployVMCmd", JobKind::Vm, vm_life::accept_deploy, vm_life::start_deploy),
    run("startVirtualMachine", Roles::User, vm_life::ID_PARAMS,
        "user.vm.StartVMCmd", JobKind::Vm, vm_life::accept, vm_life::start),
    run("stopVirtualMachine", Roles::User, vm_life::ID_PARAMS,
        "user.vm.StopVMCmd", JobKind::Vm, vm_life::accept, vm_life::stop),
    run("rebootVirtualMachine", Roles::User, vm_life::ID_PARAMS,
        "user.vm.RebootVMCmd", JobKind::Vm, vm_life::accept, vm_life::reboot),
    run("destroyVirtualMachine", Roles::User, vm_life::ID_PARAMS,
        "user.vm.DestroyVMCmd", JobKind::Vm, vm_life::accept, vm_life::start_destroy),
    change("recoverVirtualMachine", Roles::User, vm_life::ID_PARAMS, vm_life::recover),
    change("updateVirtualMachine", Roles::User, vm_life::UPDATE_PARAMS, vm_life::update),
    run("addNicToVirtualMachine", Roles::User, vm_nics::ADD_PARAMS,
        "user.vm.AddNicToVMCmd", JobKind::Vm, vm_nics::accept_add, vm_nics::start_add),
    run("removeNicFromVirtualMachine", Roles::User, vm_nics::NIC_PARAMS,
        "user.vm.RemoveNicFromVMCmd", JobKind::Vm, Accepted::nothing, vm_nics::start_remove),
    run("updateDefaultNicForVirtualMachine", Roles::User, vm_nics::NIC_PARAMS,
        "user.vm.UpdateDefaultNicForVMCmd", JobKind::Vm,
        Accepted::nothing, vm_nics::start_default),
    run("addIpToNic", Roles::User, vm_nics::ADD_ADDRESS_PARAMS,
        "user.vm.AddIpToVmNicCmd", JobKind::Vm,
        vm_nics::accept_add_address, vm_nics::start_add_address).under("addiptovmnicresponse"),
    run("removeIpFromNic", Roles::User, vm_nics::REMOVE_ADDRESS_PARAMS,
        "user.vm.RemoveIpFromVmNicCmd", JobKind::Vm,
        Accepted::nothing, vm_nics::start_remove_address),

    read("queryAsyncJobResult", Roles::All, job::QUERY_PARAMS, job::query),
    read("listAsyncJobs", Roles::User, NO_PARAMS, job::list),

    run("addAccountToProject", Roles::User, account::ADD_TO_PROJECT_PARAMS,
        "user.account.AddAccountToProjectCmd", JobKind::Other,
        account::accept_project, account::start_add_to_project),
    read("listUserKeys", Roles::User, user::LIST_KEYS_PARAMS, user::list_keys).from([4, 23, 0]),
    run("registerUserKeys", Roles::User, user::REGISTER_PARAMS,
        "admin.user.RegisterUserKeysCmd", JobKind::Other,
        user::accept_register, user::start_register).from([4, 23, 0]),
    run("disableAccount", Roles::Domain, account::DISABLE_PARAMS,
        "admin.account.DisableAccountCmd", JobKind::Other,
        Accepted::nothing, account::start_disable),
    change("updateResourceLimit", Roles::Domain, resource_limit::UPDATE_PARAMS,
        resource_limit::update),
    read("getApiLimit", Roles::User, NO_PARAMS, throttle::limit),
    change("resetApiLimit", Roles::Root, throttle::RESET_PARAMS, throttle::reset),

    read("listManagementServers", Roles::Root, zone::LIST_SERVERS_PARAMS, zone::list_servers),
    read("listManagementServersMetrics", Roles::Root, zone::LIST_SERVERS_PARAMS, zone::list_servers)
        .from([4, 17, 0]),
    root_only("addResourceDetail"),
    root_only("listHosts"),

    read("listPublicIpAddresses", Roles::All, public_ip::LIST_PARAMS, public_ip::list),
    run("associateIpAddress", Roles::All, associate_ip::ASSOCIATE_PARAMS,
        "user.address.AssociateIPAddrCmd", JobKind::Associate,
        associate_ip::accept_associate, associate_ip::start_associate),
    run("disassociateIpAddress", Roles::All, public_ip::DISASSOCIATE_PARAMS,
        "user.address.DisassociateIPAddrCmd", JobKind::Release,
        public_ip::accept_disassociate, public_ip::start_disassociate),

    change("reserveIpAddress", Roles::User, reserved_ip::RESERVE_PARAMS, reserved_ip::reserve)
        .from([4, 17, 0]),
    change("releaseIpAddress", Roles::User, reserved_ip::ID_PARAMS, reserved_ip::release)
        .from([4, 17, 0]),
    change("enableStaticNat", Roles::User, static_nat::ENABLE_PARAMS, static_nat::enable),
    run("disableStaticNat", Roles::User, static_nat::DISABLE_PARAMS,
        "user.nat.DisableStaticNatCmd", JobKind::Firewall,
        Accepted::nothing, static_nat::start_disable),

    read("listLoadBalancerRules", Roles::All, rule::LIST_PARAMS, rule::list),
    run("createLoadBalancerRule", Roles::All, rule::CREATE_PARAMS,
        "user.loadbalancer.CreateLoadBalancerRuleCmd", JobKind::CreateRule,
        create_rule::accept, create_rule::start),
    run("updateLoadBalancerRule", Roles::All, rule::UPDATE_PARAMS,
        "user.loadbalancer.UpdateLoadBalancerRuleCmd", JobKind::UpdateRule,
        Accepted::nothing, rule::start_update),
    run("deleteLoadBalancerRule", Roles::All, rule::ID_PARAMS,
        "user.loadbalancer.DeleteLoadBalancerRuleCmd", JobKind::DeleteRule,
        Accepted::nothing, rule::start_delete),

    read("listLoadBalancerRuleInstances", Roles::All, member::LIST_PARAMS, member::list),
    run("assignToLoadBalancerRule", Roles::All, member::PARAMS,
        "user.loadbalancer.AssignToLoadBalancerRuleCmd", JobKind::Assign,
        Accepted::nothing, member::start_assign),
    run("removeFromLoadBalancerRule", Roles::All, member::PARAMS,
        "user.loadbalancer.RemoveFromLoadBalancerRuleCmd", JobKind::Remove,
        Accepted::nothing, member::start_remove),

    read("listLBStickinessPolicies", Roles::User, stickiness::LIST_PARAMS, stickiness::list),
    run("createLBStickinessPolicy", Roles::User, stickiness::CREATE_PARAMS,
        "user.loadbalancer.CreateLBStickinessPolicyCmd", JobKind::UpdateRule,
        stickiness::accept_create, stickiness::start_create).under("createLBStickinessPolicy"),
    run("deleteLBStickinessPolicy", Roles::User, stickiness::DELETE_PARAMS,
        "user.loadbalancer.DeleteLBStickinessPolicyCmd", JobKind::UpdateRule,
        Accepted::nothing, stickiness::start_delete).under("deleteLBstickinessrruleresponse"),
    read("listLBHealthCheckPolicies", Roles::User, stickiness::LIST_HEALTH_PARAMS,
        stickiness::list_health),
    run("createLBHealthCheckPolicy", Roles::User, stickiness::HEALTH_PARAMS,
        "user.loadbalancer.CreateLBHealthCheckPolicyCmd", JobKind::UpdateRule,
        stickiness::refuse_health, stickiness::start_create),

    read("listFirewallRules", Roles::All, firewall_rule::LIST_PARAMS, firewall_rule::list),
    run("createFirewallRule", Roles::All, firewall_rule::CREATE_PARAMS,
        "user.firewall.CreateFirewallRuleCmd", JobKind::Firewall,
        firewall_rule::accept_create, firewall_rule::start_create),
    run("updateFirewallRule", Roles::All, firewall_rule::ID_PARAMS,
        "user.firewall.UpdateFirewallRuleCmd", JobKind::Firewall,
        firewall_rule::accept_existing, firewall_rule::start_update),
    run("deleteFirewallRule", Roles::All, firewall_rule::ID_PARAMS,
        "user.firewall.DeleteFirewallRuleCmd", JobKind::Firewall,
        firewall_rule::accept_existing, firewall_rule::start_delete),

    read("listPortForwardingRules", Roles::User, port_forward::LIST_PARAMS, port_forward::list),

    run("createPortForwardingRule", Roles::User, port_forward::CREATE_PARAMS,
        "user.firewall.CreatePortForwardingRuleCmd", JobKind::Firewall,
        port_forward::accept_create, port_forward::start_create),
    run("deletePortForwardingRule", Roles::User, port_forward::ID_PARAMS,
        "user.firewall.DeletePortForwardingRuleCmd", JobKind::Firewall,
        Accepted::nothing, port_forward::start_delete),

    read("listNetworkACLLists", Roles::User, acl::LIST_LISTS_PARAMS, acl::list_lists),
    read("listNetworkACLs", Roles::All, acl::LIST_PARAMS, acl::list),
    run("createNetworkACL", Roles::All, acl::CREATE_PARAMS,
        "user.network.CreateNetworkACLCmd", JobKind::Acl,
        change_acl::accept_create, change_acl::start_create),
    run("updateNetworkACLItem", Roles::User, acl::UPDATE_PARAMS,
        "user.network.UpdateNetworkACLItemCmd", JobKind::Acl,
        change_acl::accept_existing, change_acl::start_update).under("createnetworkaclresponse"),
    run("deleteNetworkACL", Roles::All, acl::ID_PARAMS,
        "user.network.DeleteNetworkACLCmd", JobKind::Acl,
        change_acl::accept_existing, change_acl::start_delete),

    run("createNetworkACLList", Roles::User, change_acl_list::CREATE_PARAMS,
        "user.network.CreateNetworkACLListCmd", JobKind::Acl,
        change_acl_list::accept_create, change_acl_list::start_create),
    run("deleteNetworkACLList", Roles::User, change_acl_list::ID_PARAMS,
        "user.network.DeleteNetworkACLListCmd", JobKind::Acl,
        change_acl_list::accept_delete, change_acl_list::start_delete),
    run("replaceNetworkACLList", Roles::User, change_acl_list::REPLACE_PARAMS,
        "user.network.ReplaceNetworkACLListCmd", JobKind::Acl,
        Accepted::nothing, change_acl_list::start_replace),

    read("listTags", Roles::User, tag::LIST_PARAMS, tag::list),
    run("createTags", Roles::User, tag::CREATE_PARAMS,
        "user.tag.CreateTagsCmd", JobKind::Tags,
        Accepted::nothing, tag::start_create),
    run("deleteTags", Roles::User, tag::DELETE_PARAMS,
        "user.tag.DeleteTagsCmd", JobKind::Tags,
        Accepted::nothing, tag::start_delete),
    read("listResourceDetails", Roles::User, tag::LIST_DETAILS_PARAMS, tag::list_details),
];
