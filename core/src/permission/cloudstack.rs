//! Commands of the CloudStack API.

use super::{Need, Task};

/// What a command is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandUse {
    /// Its exact name.
    pub command: &'static str,
    /// Whether it changes anything.
    pub changes: bool,
    /// How much depends on it.
    pub need: Need,
    /// What it is used for.
    pub purpose: &'static str,
    /// What is lost without it.
    pub without: &'static str,
}

impl CommandUse {
    /// How much depends on it for a task; `None` if the task does not use it.
    pub fn need_for(&self, task: Task) -> Option<Need> {
        (task.changes_cloud() || !self.changes).then_some(self.need)
    }
}

const fn read(
    command: &'static str,
    need: Need,
    purpose: &'static str,
    without: &'static str,
) -> CommandUse {
    CommandUse { command, changes: false, need, purpose, without }
}

const fn change(
    command: &'static str,
    need: Need,
    purpose: &'static str,
    without: &'static str,
) -> CommandUse {
    CommandUse { command, changes: true, need, purpose, without }
}

/// Without one of the bulk lists there is no plan.
const BLIND: &str = "nothing is planned";

/// Every command that is ever sent.
pub const COMMANDS: &[CommandUse] = &[
    read(
        "listApis",
        Need::Optional,
        "telling which commands a key may use (check-permissions)",
        "commands that change something are unknown until they are used",
    ),
    read(
        "listCapabilities",
        Need::Optional,
        "the release and an announced rate limit",
        "the rate limit is learned by being refused",
    ),
    read("listNetworks", Need::Always, "where Nodes are, and what their networks can do", BLIND),
    read(
        "listVPCs",
        Need::Optional,
        "whether a VPC has a Firewall service",
        "whether a VPC has a Firewall service is found out by trying",
    ),
    read("listVirtualMachines", Need::Always, "machines of Nodes", BLIND),
    read("listPublicIpAddresses", Need::Always, "addresses", BLIND),
    read("listLoadBalancerRules", Need::Always, "rules", BLIND),
    read("listLoadBalancerRuleInstances", Need::Always, "members of rules", BLIND),
    read("listFirewallRules", Need::Always, "openings of ports", BLIND),
    read(
        "listPortForwardingRules",
        Need::Optional,
        "what others have on an address, before it is released",
        "port forwards on an address show only as rules of an unknown kind before its release",
    ),
    read(
        "listNetworkACLLists",
        Need::Optional,
        "names of ACL lists",
        "ACL lists are known by what networks say of them",
    ),
    read(
        "listNetworkACLs",
        Need::InVpc,
        "openings of ports in VPC tiers",
        "ports of VPC tiers are not opened",
    ),
    read(
        "queryAsyncJobResult",
        Need::Always,
        "the end of what was begun",
        "no change is known to have happened",
    ),
    change("associateIpAddress", Need::Always, "taking an address", "no Service gets an address"),
    change(
        "disassociateIpAddress",
        Need::Always,
        "releasing an address that a Service had",
        "addresses of deleted Services stay, and so do the Services",
    ),
    change("createLoadBalancerRule", Need::Always, "new ports", "no port is served"),
    change(
        "updateLoadBalancerRule",
        Need::Always,
        "algorithm, protocol and sources of a port",
        "rules stay as they were made",
    ),
    change(
        "deleteLoadBalancerRule",
        Need::Always,
        "ports that went",
        "ports of deleted Services stay, and so do the Services",
    ),
    change("assignToLoadBalancerRule", Need::Always, "Nodes that came", "no Node gets traffic"),
    change(
        "removeFromLoadBalancerRule",
        Need::Always,
        "Nodes that went",
        "Nodes that went go on getting traffic",
    ),
    change("createFirewallRule", Need::Always, "opening ports", "ports are not opened"),
    change("deleteFirewallRule", Need::Always, "closing ports", "ports stay open"),
    change(
        "createNetworkACL",
        Need::InVpc,
        "opening ports of VPC tiers",
        "ports of VPC tiers are not opened",
    ),
    change(
        "deleteNetworkACL",
        Need::InVpc,
        "closing ports of VPC tiers",
        "ports of VPC tiers stay open",
    ),
    change(
        "createTags",
        Need::Optional,
        "tags, with `ownership-tags = on`",
        "objects are not tagged; ownership is known without",
    ),
];

/// What is lost without a command.
pub fn without(command: &str) -> &'static str {
    let known = COMMANDS.iter().find(|known| known.command == command);
    known.map_or("Services that need it fail", |known| known.without)
}
