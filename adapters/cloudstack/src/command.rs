//! Every command that the client sends, in one table: its name and what it does.
//!
//! A command that is not here can't be sent, and tests run over [`Command::ALL`]: the faults of
//! each are held against what the client reports.

/// What a command does, as far as its failures differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Changes nothing.
    Read,
    /// associateIpAddress and the create commands: the object exists before the job does.
    Create,
    /// updateLoadBalancerRule, createTags.
    Update,
    /// assignToLoadBalancerRule.
    Assign,
    /// removeFromLoadBalancerRule.
    Remove,
    /// deleteLoadBalancerRule, deleteFirewallRule, deleteNetworkACL.
    Delete,
    /// disassociateIpAddress.
    Release,
}

macro_rules! commands {
    ($($variant:ident, $name:literal, $verb:ident;)*) => {
        /// A command of the API.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Command { $(#[doc = $name] $variant),* }

        impl Command {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Its exact name.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }

            /// What it does.
            pub const fn verb(self) -> Verb {
                match self { $(Self::$variant => Verb::$verb),* }
            }
        }
    };
}

commands! {
    ListApis, "listApis", Read;
    ListCapabilities, "listCapabilities", Read;
    ListNetworks, "listNetworks", Read;
    ListVpcs, "listVPCs", Read;
    ListVirtualMachines, "listVirtualMachines", Read;
    ListPublicIpAddresses, "listPublicIpAddresses", Read;
    ListLoadBalancerRules, "listLoadBalancerRules", Read;
    ListLoadBalancerRuleInstances, "listLoadBalancerRuleInstances", Read;
    ListFirewallRules, "listFirewallRules", Read;
    ListPortForwardingRules, "listPortForwardingRules", Read;
    ListNetworkAclLists, "listNetworkACLLists", Read;
    ListNetworkAcls, "listNetworkACLs", Read;
    QueryAsyncJobResult, "queryAsyncJobResult", Read;
    AssociateIpAddress, "associateIpAddress", Create;
    DisassociateIpAddress, "disassociateIpAddress", Release;
    CreateLoadBalancerRule, "createLoadBalancerRule", Create;
    UpdateLoadBalancerRule, "updateLoadBalancerRule", Update;
    DeleteLoadBalancerRule, "deleteLoadBalancerRule", Delete;
    AssignToLoadBalancerRule, "assignToLoadBalancerRule", Assign;
    RemoveFromLoadBalancerRule, "removeFromLoadBalancerRule", Remove;
    CreateFirewallRule, "createFirewallRule", Create;
    DeleteFirewallRule, "deleteFirewallRule", Delete;
    CreateNetworkAcl, "createNetworkACL", Create;
    DeleteNetworkAcl, "deleteNetworkACL", Delete;
    CreateTags, "createTags", Update;
}
