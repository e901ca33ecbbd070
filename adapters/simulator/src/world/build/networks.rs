//! Networks, VPCs with their tiers, and ACL lists of a world file.

use super::Builder;
use crate::cloud::{Owner, RuleState};
use crate::resources::network::{Network, Offering, Tier};
use crate::resources::network_acl::{AclItem, AclList};
use crate::resources::services;
use crate::resources::tag::ResourceType;
use crate::resources::vpc::Vpc;
use crate::table::Key;
use crate::world::{
    self, AclAction, LbScheme, NetworkKind, NetworkState, TrafficType, VpcServices, WorldError,
};

impl Builder {
    pub(super) fn network(
        &mut self,
        place: &str,
        network: &world::Network,
        owner: Owner,
        tier: Option<Tier>,
    ) -> Result<(), WorldError> {
        if tier.is_none() && network.acl.is_some() {
            return Err(WorldError::Invalid {
                place: format!("{place}.acl"),
                cause: "an isolated network has no ACL list; only a tier of a VPC has".to_owned(),
            });
        }
        let id = self.id(network.id.as_ref());
        let offering = match &network.offering {
            Some(offering) => Offering {
                id: self.id(offering.id.as_ref()),
                name: offering.name.clone(),
                conserve_mode: offering.conserve_mode,
                lb_scheme: offering.lb_scheme,
            },
            None => Offering {
                id: self.cloud.ids.next_id(),
                name: match network.kind {
                    _ if tier.is_some() => "DefaultIsolatedNetworkOfferingForVpcNetworks",
                    NetworkKind::Isolated => "DefaultIsolatedNetworkOfferingWithSourceNatService",
                    NetworkKind::Shared => "DefaultSharedNetworkOffering",
                    NetworkKind::L2 => "DefaultL2NetworkOffering",
                }
                .to_owned(),
                conserve_mode: true,
                lb_scheme: LbScheme::Public,
            },
        };
        let known = match network.kind {
            _ if tier.is_some() => services::TIER,
            NetworkKind::Isolated => services::ISOLATED,
            NetworkKind::Shared => services::SHARED,
            NetworkKind::L2 => services::L2,
        };
        let services = network
            .services
            .clone()
            .unwrap_or_else(|| known.iter().map(|name| (*name).to_owned()).collect());
        let gateway = network.cidr.hosts().next().unwrap_or_else(|| network.cidr.addr());
        self.cloud.networks.insert_numbered(
            network.number,
            Network {
                id: id.clone(),
                name: network.name.clone(),
                display_text: network.name.clone(),
                owner,
                kind: network.kind,
                cidr: network.cidr,
                gateway: gateway.to_string(),
                created: self.started.clone(),
                implemented: network.state == NetworkState::Implemented,
                services,
                offering,
                tier,
                extra: network.extra.clone(),
            },
        );
        self.tags(ResourceType::Network, &id, owner, &network.tags);
        Ok(())
    }

    pub(super) fn vpc(&mut self, place: &str, vpc: &world::Vpc) -> Result<(), WorldError> {
        let owner = self.owner(place, &vpc.owner)?;
        let id = self.id(vpc.id.as_ref());
        let mut services: Vec<String> =
            services::VPC.iter().map(|name| (*name).to_owned()).collect();
        let offering_name = match vpc.services {
            VpcServices::Default => "Default VPC offering",
            VpcServices::WithFirewall => {
                services.push("Firewall".to_owned());
                "VPC offering with Firewall"
            }
        };
        let offering_id = self.id(vpc.offering.as_ref());
        let key = self.cloud.vpcs.insert_numbered(
            vpc.number,
            Vpc {
                id: id.clone(),
                name: vpc.name.clone(),
                display_text: vpc.name.clone(),
                owner,
                cidr: vpc.cidr.to_string(),
                created: self.started.clone(),
                services,
                offering_id,
                offering_name: offering_name.to_owned(),
                conserve_mode: vpc.conserve_mode,
                extra: vpc.extra.clone(),
            },
        );
        self.tags(ResourceType::Vpc, &id, owner, &vpc.tags);
        for list in &vpc.acl_lists {
            self.acl_list(key, list);
        }
        for (at, tier) in vpc.tiers.iter().enumerate() {
            let place = format!("{place}.tiers[{at}]");
            if tier.owner.is_some() {
                return Err(WorldError::Invalid {
                    place: format!("{place}.owner"),
                    cause: "a tier belongs to the owner of its VPC; leave it out".to_owned(),
                });
            }
            let acl = self.acl_of_tier(&place, key, tier.acl.as_deref())?;
            self.network(&place, tier, owner, Some(Tier { vpc: key, acl }))?;
        }
        Ok(())
    }

    fn acl_of_tier(
        &self,
        place: &str,
        vpc: Key<Vpc>,
        name: Option<&str>,
    ) -> Result<Option<Key<AclList>>, WorldError> {
        let Some(name) = name.filter(|name| *name != "none") else {
            return Ok(None);
        };
        self.cloud
            .acl_lists
            .iter()
            .find(|(_, list)| list.name == name && list.vpc.is_none_or(|own| own == vpc))
            .map(|(key, _)| Some(key))
            .ok_or_else(|| WorldError::Unknown {
                place: format!("{place}.acl"),
                kind: "ACL list",
                name: name.to_owned(),
            })
    }

    fn acl_list(&mut self, vpc: Key<Vpc>, list: &world::AclList) {
        let id = self.id(list.id.as_ref());
        let key = self.cloud.acl_lists.insert(AclList {
            id,
            name: list.name.clone(),
            description: Some(list.description.clone().unwrap_or_else(|| list.name.clone())),
            vpc: Some(vpc),
            is_global: false,
        });
        let mut highest = 0;
        for item in &list.items {
            let number = item.number.unwrap_or(highest + 1);
            highest = highest.max(number);
            let id = self.id(item.id.as_ref());
            self.cloud.acl_items.insert(AclItem {
                id,
                list: key,
                number,
                protocol: item.protocol.clone(),
                first: item.start_port,
                last: item.end_port.or(item.start_port),
                cidrs: item.cidrs.join(","),
                ingress: item.traffic == TrafficType::Ingress,
                allow: item.action == AclAction::Allow,
                reason: item.reason.clone(),
                icmp: (item.protocol == "icmp").then_some((-1, -1)),
                state: RuleState::Active,
                damaged: false,
            });
        }
    }
}
