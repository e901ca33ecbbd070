//! All that the simulated CloudStack knows: one table per kind of object, the clock and the sources
//! of ids.
//!
//! Each kind has its file under `resources/` with its row, its JSON and its commands. Here is what
//! they share: who owns what, how ids resolve, and how internal error texts name objects.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use jiff::Timestamp;
use serde_json::Value;

use crate::commands::Entity;
use crate::faults::PageFault;
use crate::faults::router::Router;
use crate::ids::IdSource;
use crate::jobs::Jobs;
use crate::object::Object;
use crate::resources::account::{Account, Project};
use crate::resources::create_network::VpcOffering;
use crate::resources::domain::Domain;
use crate::resources::firewall_rule::FirewallRule;
use crate::resources::load_balancer_rule::LoadBalancerRule;
use crate::resources::network::Network;
use crate::resources::network_acl::{AclItem, AclList};
use crate::resources::port_forward::PortForward;
use crate::resources::public_ip::PublicIp;
use crate::resources::stickiness::Stickiness;
use crate::resources::tag::Tags;
use crate::resources::user::{RoleIds, User};
use crate::resources::virtual_machine::VirtualMachine;
use crate::resources::vpc::Vpc;
use crate::settings::Settings;
use crate::table::{Key, Row, Table};
use crate::throttle::Throttle;
use crate::versions::{Feature, Version};
use crate::world::Role;

/// Database number of the network that public addresses come from; guest networks come after it.
pub(crate) const PUBLIC_NETWORK: u64 = 0;

/// The world's state.
#[derive(Debug, Clone)]
pub(crate) struct Cloud {
    pub(crate) version: Version,
    /// When the world began, which seeded objects show as their age.
    pub(crate) started: Timestamp,
    /// The time of the last request; before the first one it is as early as can be.
    pub(crate) now: Timestamp,
    pub(crate) ids: IdSource,
    /// `default.page.size`: rows of an answer without page parameters, and the largest page.
    pub(crate) page_limit: usize,
    /// The one management server.
    pub(crate) server_id: String,
    pub(crate) zone: Zone,
    pub(crate) settings: Settings,
    pub(crate) throttle: Throttle,
    pub(crate) domains: Table<Domain>,
    pub(crate) accounts: Table<Account>,
    pub(crate) users: Table<User>,
    pub(crate) role_ids: RoleIds,
    pub(crate) projects: Table<Project>,
    pub(crate) networks: Table<Network>,
    pub(crate) vpcs: Table<Vpc>,
    pub(crate) vpc_offerings: Table<VpcOffering>,
    pub(crate) vms: Table<VirtualMachine>,
    pub(crate) addresses: Table<PublicIp>,
    pub(crate) rules: Table<LoadBalancerRule>,
    pub(crate) firewall_rules: Table<FirewallRule>,
    pub(crate) port_forwards: Table<PortForward>,
    pub(crate) stickiness: Table<Stickiness>,
    /// The last number of the database table that the three kinds of rules share.
    pub(crate) last_rule: u64,
    pub(crate) acl_lists: Table<AclList>,
    pub(crate) acl_items: Table<AclItem>,
    pub(crate) tags: Tags,
    pub(crate) jobs: Jobs,
    pub(crate) router: Router,
    /// The address that is drawn next if it is free.
    pub(crate) next_address: Option<Key<PublicIp>>,
    /// The address of a guest network that is drawn next if it is free.
    pub(crate) next_guest_address: Option<Ipv4Addr>,
    /// What is wrong with the list that is asked for at the moment.
    pub(crate) page_fault: Option<PageFault>,
}

/// The one zone.
#[derive(Debug, Clone)]
pub(crate) struct Zone {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) physical_network: String,
    /// The network of the public range, `networkid` of an address.
    pub(crate) public_network: String,
    /// `allocationstate`: a disabled zone is hidden from users and gives no addresses.
    pub(crate) enabled: bool,
    pub(crate) extra: Extra,
}

/// Who owns an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owner {
    Account(Key<Account>),
    Project(Key<Project>),
}

/// Fields of an answer that have no meaning here and come from the world file.
pub(crate) type Extra = BTreeMap<String, Value>;

impl Cloud {
    /// The number of an object by its UUID; removed objects whose rows stay are found too.
    pub(crate) fn resolve(&self, entity: Entity, id: &str) -> Option<u64> {
        fn number<T: Row>(table: &Table<T>, id: &str) -> Option<u64> {
            table.find(id).map(Key::number)
        }
        match entity {
            Entity::AclItem => number(&self.acl_items, id),
            Entity::AclList => number(&self.acl_lists, id),
            Entity::Address => number(&self.addresses, id),
            Entity::Account => number(&self.accounts, id),
            Entity::Domain => number(&self.domains, id),
            Entity::FirewallRule => number(&self.firewall_rules, id),
            Entity::Job => self.jobs.find(id).map(Key::number),
            Entity::LoadBalancerRule => number(&self.rules, id),
            Entity::Network => number(&self.networks, id).or_else(|| {
                self.zone.public_network.eq_ignore_ascii_case(id).then_some(PUBLIC_NETWORK)
            }),
            Entity::PortForward => number(&self.port_forwards, id),
            Entity::Project => number(&self.projects, id),
            Entity::Stickiness => number(&self.stickiness, id),
            Entity::User => number(&self.users, id),
            Entity::VirtualMachine => number(&self.vms, id),
            Entity::Vpc => number(&self.vpcs, id),
            Entity::VpcOffering => number(&self.vpc_offerings, id),
            Entity::Zone => self.zone.id.eq_ignore_ascii_case(id).then_some(1),
        }
    }

    /// Whether an account may read and change what the owner has.
    pub(crate) fn may_use(&self, caller: Key<Account>, owner: Owner) -> bool {
        match owner {
            Owner::Account(account) if account == caller => true,
            Owner::Project(project) if self.is_member(caller, project) => true,
            Owner::Account(_) | Owner::Project(_) => self.administers(caller, owner),
        }
    }

    /// Whether an account works in a project.
    pub(crate) fn is_member(&self, caller: Key<Account>, project: Key<Project>) -> bool {
        self.projects.get(project).is_some_and(|project| project.members.contains(&caller))
    }

    /// Whether an account is an admin of the owner's domain or of one above it.
    pub(crate) fn administers(&self, caller: Key<Account>, owner: Owner) -> bool {
        self.domain_of(owner).is_some_and(|domain| self.administers_domain(caller, domain))
    }

    /// Whether an account is an admin of the domain or of one above it.
    pub(crate) fn administers_domain(&self, caller: Key<Account>, domain: Key<Domain>) -> bool {
        let Some(row) = self.accounts.get(caller) else {
            return false;
        };
        match row.role {
            Role::RootAdmin => true,
            Role::DomainAdmin => self.is_below(domain, row.domain),
            Role::User | Role::ProjectKubernetesService => false,
        }
    }

    /// Whether an account is a root admin.
    pub(crate) fn is_root(&self, caller: Key<Account>) -> bool {
        self.accounts.get(caller).is_some_and(|row| row.role == Role::RootAdmin)
    }

    /// Whether lists may name a domain: one's own, and those that an admin administers.
    pub(crate) fn sees_domain(&self, caller: Key<Account>, domain: Key<Domain>) -> bool {
        self.domain_of(Owner::Account(caller)) == Some(domain)
            || self.administers_domain(caller, domain)
    }

    /// Everybody who can own something.
    pub(crate) fn owners(&self) -> impl Iterator<Item = Owner> {
        let accounts = self.accounts.iter().map(|(key, _)| Owner::Account(key));
        accounts.chain(self.projects.iter().map(|(key, _)| Owner::Project(key)))
    }

    /// The domain of an owner.
    pub(crate) fn domain_of(&self, owner: Owner) -> Option<Key<Domain>> {
        match owner {
            Owner::Account(account) => self.accounts.get(account).map(|row| row.domain),
            Owner::Project(project) => self.projects.get(project).map(|row| row.domain),
        }
    }

    /// Whether a domain is another one or lies below it.
    pub(crate) fn is_below(&self, domain: Key<Domain>, above: Key<Domain>) -> bool {
        match (self.domains.get(domain), self.domains.get(above)) {
            (Some(domain), Some(above)) => domain.is_below(above),
            _ => false,
        }
    }

    /// The fields that name an owner: account, or project instead of account, and the domain.
    pub(crate) fn owner_fields(&self, owner: Owner) -> Object<'_> {
        let named = match owner {
            Owner::Account(account) => Object::new()
                .maybe("account", self.accounts.get(account).map(|row| row.name.as_str())),
            Owner::Project(project) => {
                let row = self.projects.get(project);
                Object::new()
                    .maybe("project", row.map(|row| row.name.as_str()))
                    .maybe("projectid", row.map(|row| row.id.as_str()))
            }
        };
        named.merge(self.domain_fields(self.domain_of(owner)))
    }

    /// The fields that name a domain.
    pub(crate) fn domain_fields(&self, key: Option<Key<Domain>>) -> Object<'_> {
        let domain = key.and_then(|key| self.domains.get(key));
        let path = domain.filter(|_| self.version.has(Feature::DomainPath));
        Object::new()
            .maybe("domainid", domain.map(|domain| domain.id.as_str()))
            .maybe("domain", domain.map(|domain| domain.name.as_str()))
            .maybe("domainpath", path.map(|domain| domain.path.as_str()))
    }

    /// The zone's name and id, as most objects show them.
    pub(crate) fn zone_fields(&self) -> Object<'_> {
        Object::new()
            .with("zoneid", self.zone.id.as_str())
            .with("zonename", self.zone.name.as_str())
    }

    /// The number of the next rule of any kind.
    pub(crate) fn next_rule(&mut self) -> u64 {
        self.last_rule += 1;
        self.last_rule
    }
}

/// How CloudStack's error texts show a row of its rule table.
pub(crate) fn rule_text(number: u64, network: u64, purpose: &str, state: &str, id: &str) -> String {
    format!(
        r#"FirewallRule {{"id":{number},"networkId":{network},"purpose":"{purpose}","state":"{state}","uuid":"{id}"}}"#
    )
}

/// State of a load-balancer rule, firewall rule or ACL item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RuleState {
    /// Stored, not known to be pushed.
    Add,
    Active,
    /// Revoked, not known to be gone from the router.
    Deleting,
}

impl RuleState {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Add => "Add",
            Self::Active => "Active",
            Self::Deleting => "Deleting",
        }
    }
}
