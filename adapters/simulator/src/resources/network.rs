//! Guest networks: isolated ones and the tiers of VPCs.

use ipnet::Ipv4Net;
use serde_json::Value;

use crate::cloud::{Cloud, Extra, Owner};
use crate::commands::{Call, Entity, Kind, Param, may, since};
use crate::error::ApiError;
use crate::lists::{Scope, TagFilter, answer, equal, keyword_matches};
use crate::object::Object;
use crate::resources::network_acl::AclList;
use crate::resources::services;
use crate::resources::tag::{ResourceType, inline_tags};
use crate::resources::vpc::Vpc;
use crate::table::{Key, Row};
use crate::versions::Feature;

/// A guest network.
#[derive(Debug, Clone)]
pub(crate) struct Network {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) display_text: String,
    pub(crate) owner: Owner,
    pub(crate) cidr: Ipv4Net,
    pub(crate) gateway: String,
    pub(crate) created: String,
    /// Whether a router serves it: state Implemented, else Allocated.
    pub(crate) implemented: bool,
    pub(crate) services: Vec<String>,
    pub(crate) offering: Offering,
    pub(crate) tier: Option<Tier>,
    pub(crate) extra: Extra,
}

/// What makes a network a tier.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tier {
    pub(crate) vpc: Key<Vpc>,
    pub(crate) acl: Option<Key<AclList>>,
}

/// The offering a network was made from.
#[derive(Debug, Clone)]
pub(crate) struct Offering {
    pub(crate) id: String,
    pub(crate) name: String,
    /// Whether one address may serve rules of several kinds.
    pub(crate) conserve_mode: bool,
}

impl Row for Network {
    fn id(&self) -> &str {
        &self.id
    }
}

impl Network {
    pub(crate) fn offers(&self, service: &str) -> bool {
        self.services.iter().any(|known| known == service)
    }

    pub(crate) fn vpc(&self) -> Option<Key<Vpc>> {
        self.tier.map(|tier| tier.vpc)
    }
}

/// The domain of host names where a world file names none.
const NETWORK_DOMAIN: &str = "cs1cloud.internal";

pub(crate) const LIST_PARAMS: &[Param] = &[
    may("id", Kind::Id(Entity::Network)),
    since("name", Kind::Text, "4.22.0"),
    may("zoneid", Kind::Id(Entity::Zone)),
    may("type", Kind::Text),
    may("vpcid", Kind::Id(Entity::Vpc)),
    may("forvpc", Kind::Flag),
    may("supportedservices", Kind::List),
    may("restartrequired", Kind::Flag),
];

/// listNetworks, newest first.
pub(crate) fn list(cloud: &Cloud, call: &Call) -> Result<Value, ApiError> {
    let params = &call.params;
    let scope = Scope::of_networks(cloud, call)?;
    let tags = TagFilter::read(params)?;
    let name = params.text("name").filter(|_| cloud.version.has(Feature::NetworkNameFilter));
    let services = params.list("supportedservices").unwrap_or_default();
    let rows: Vec<_> = cloud
        .networks
        .iter()
        .rev()
        .filter(|(key, row)| {
            scope.covers(row.owner)
                && params.names("id", *key)
                && params.is_in_zone()
                && params.names("vpcid", row.vpc())
                && params.says("forvpc", row.tier.is_some())
                && params.flag("restartrequired") != Some(true)
                && params.agrees("type", |kind| equal("isolated", kind))
                && name.is_none_or(|name| equal(&row.name, name))
                && services.iter().all(|service| row.offers(service))
                && keyword_matches(call, &[&row.name])
                && tags.passes(cloud, ResourceType::Network, &row.id)
        })
        .collect();
    answer(cloud, call, "network", rows, |(_, row)| json(cloud, row))
}

pub(crate) fn json(cloud: &Cloud, row: &Network) -> Value {
    let list = row.tier.and_then(|tier| tier.acl);
    let acl = list.and_then(|list| cloud.acl_lists.get(list));
    let vpc = row.vpc().and_then(|vpc| cloud.vpcs.get(vpc));
    let own = Object::new()
        .with("id", row.id.as_str())
        .with("name", row.name.as_str())
        .with("displaytext", row.display_text.as_str())
        .with("related", row.id.as_str())
        .with("broadcastdomaintype", "Vlan")
        .with("traffictype", "Guest")
        .with("type", "Isolated")
        .with("acltype", "Account")
        .with("state", if row.implemented { "Implemented" } else { "Allocated" })
        .with("cidr", row.cidr.to_string())
        .with("gateway", row.gateway.as_str())
        .with("netmask", row.cidr.netmask().to_string())
        .with("networkofferingid", row.offering.id.as_str())
        .with("networkofferingname", row.offering.name.as_str())
        .with("networkofferingdisplaytext", row.offering.name.as_str())
        .with("networkofferingconservemode", row.offering.conserve_mode)
        .with(
            "networkofferingavailability",
            if row.tier.is_some() { "Optional" } else { "Required" },
        )
        .with("physicalnetworkid", cloud.zone.physical_network.as_str())
        .with("service", services::of_network(&row.services, row.tier.is_some(), &cloud.version));
    let vpc_fields = Object::new()
        .maybe("vpcid", vpc.map(|vpc| vpc.id.as_str()))
        .maybe("vpcname", vpc.map(|vpc| vpc.name.as_str()))
        .maybe("aclid", acl.map(|acl| acl.id.as_str()))
        .maybe("aclname", acl.map(|acl| acl.name.as_str()))
        .maybe("egressdefaultpolicy", row.tier.is_none().then_some(false));
    own.merge(cloud.zone_fields())
        .merge(cloud.owner_fields(row.owner))
        .merge(vpc_fields)
        .merge(constants(row))
        .with("created", row.created.as_str())
        .with("tags", inline_tags(cloud, ResourceType::Network, &row.id))
        .merge_extra(&row.extra)
        .into()
}

/// The domain of host names in a network.
pub(crate) fn network_domain(row: &Network) -> &str {
    row.extra.get("networkdomain").and_then(Value::as_str).unwrap_or(NETWORK_DOMAIN)
}

/// Fields that are the same for every network here.
fn constants(row: &Network) -> Object {
    Object::new()
        .with("canusefordeploy", true)
        .with("dns1", "192.0.2.53")
        .with("hasannotations", false)
        .with("ispersistent", false)
        .with("issystem", false)
        .with("networkdomain", NETWORK_DOMAIN)
        .with("privatemtu", 1500)
        .with("publicmtu", 1500)
        .with("receivedbytes", 0)
        .with("redundantrouter", false)
        .with("restartrequired", false)
        .with("sentbytes", 0)
        .with("specifyipranges", false)
        .with("specifyvlan", false)
        .with("strechedl2subnet", false)
        .with("supportsvmautoscaling", row.offers("Lb"))
}

#[cfg(test)]
mod tests {
    use crate::testing::{Lab, text};

    #[test]
    fn tiers_have_a_vpc_and_a_list_and_isolated_networks_an_egress_policy() {
        let mut lab = Lab::new();
        let tier = lab.rows("listNetworks", &[("name", "tier")]).remove(0);
        assert_eq!((&tier["vpcname"], &tier["aclname"]), (&"vpc".into(), &"custom".into()));
        assert_eq!(tier.get("egressdefaultpolicy"), None);
        assert_eq!(tier["gateway"], "10.2.1.1");
        let iso = lab.rows("listNetworks", &[("name", "iso")]).remove(0);
        assert_eq!(iso["egressdefaultpolicy"], false);
        assert_eq!((iso.get("vpcid"), iso.get("aclid")), (None, None));
        let bare = lab.rows("listNetworks", &[("name", "bare")]).remove(0);
        assert_eq!(bare.get("aclid"), None);
        let shop = lab.rows("listNetworks", &[("projectid", "-1")]).remove(0);
        assert_eq!((&shop["project"], shop.get("account")), (&"web".into(), None));
    }

    #[test]
    fn services_filter_together_and_name_from_4_22_on() {
        let mut lab = Lab::new();
        assert_eq!(
            lab.column("listNetworks", &[("supportedservices", "Lb,Firewall")], "name"),
            ["idle", "iso"]
        );
        assert_eq!(
            lab.column("listNetworks", &[("supportedservices", "Lb,NetworkACL")], "name"),
            ["bare", "allow", "tier"]
        );
        assert_eq!(Lab::on("4.21.0").rows("listNetworks", &[("name", "iso")]).len(), 6);
    }

    #[test]
    fn udp_is_advertised_although_refused_and_ssl_from_4_22_on() {
        let protocols = |release: &str| {
            let mut lab = Lab::on(release);
            let network = lab.rows("listNetworks", &[("keyword", "iso")]).remove(0);
            let services = network["service"].as_array().unwrap().clone();
            let lb = services.iter().find(|service| service["name"] == "Lb").unwrap();
            let capabilities = lb["capability"].as_array().unwrap();
            let found =
                capabilities.iter().find(|capability| capability["name"] == "SupportedProtocols");
            text(&found.unwrap()["value"])
        };
        assert_eq!(protocols("4.22.0"), "tcp, udp, tcp-proxy, ssl");
        assert_eq!(protocols("4.21.0"), "tcp, udp, tcp-proxy");
    }

    #[test]
    fn a_vpc_shows_its_tiers_and_matches_by_substring() {
        let mut lab = Lab::new();
        let vpc = lab.rows("listVPCs", &[("name", "p")]).remove(0);
        assert_eq!(vpc["network"].as_array().unwrap().len(), 4);
        assert_eq!(vpc["vpcofferingconservemode"], false);
        let filtered = [("supportedservices", "Firewall")];
        assert_eq!(lab.rows("listVPCs", &filtered).len(), 0);
        assert_eq!(Lab::with_vpc_firewall().rows("listVPCs", &filtered).len(), 1);
    }
}
