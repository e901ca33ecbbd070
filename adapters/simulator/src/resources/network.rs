//! Guest networks: isolated and shared ones, wires of layer 2, and the tiers of VPCs.

use ipnet::Ipv4Net;
use serde_json::Value;

use crate::answer::Answer;
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
use crate::world::{LbScheme, NetworkKind};

/// A guest network.
#[derive(Debug, Clone)]
pub(crate) struct Network {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) display_text: String,
    /// A shared network is for everybody, whoever owns it.
    pub(crate) owner: Owner,
    pub(crate) kind: NetworkKind,
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
    pub(crate) lb_scheme: LbScheme,
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

    /// Whether its router balances load of public addresses.
    pub(crate) fn balances(&self) -> bool {
        self.offers("Lb") && self.offering.lb_scheme == LbScheme::Public
    }

    /// `type` of an answer.
    fn type_name(&self) -> &'static str {
        match self.kind {
            NetworkKind::Isolated => "Isolated",
            NetworkKind::Shared => "Shared",
            NetworkKind::L2 => "L2",
        }
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
pub(crate) fn list(cloud: &Cloud, call: &Call) -> Result<Answer, ApiError> {
    let params = &call.params;
    let scope = Scope::of_networks(cloud, call)?;
    let tags = TagFilter::read(params)?;
    let name = params.text("name");
    let in_project = params.text("projectid").is_some();
    let services = params.list("supportedservices").unwrap_or_default();
    let rows: Vec<_> = cloud
        .networks
        .iter()
        .rev()
        .filter(|(key, row)| {
            (scope.covers(row.owner) || row.kind == NetworkKind::Shared && !in_project)
                && params.names("id", *key)
                && params.is_in_zone()
                && params.names("vpcid", row.vpc())
                && params.says("forvpc", row.tier.is_some())
                && params.flag("restartrequired") != Some(true)
                && params.agrees("type", |kind| equal(row.type_name(), kind))
                && name.is_none_or(|name| equal(&row.name, name))
                && services.iter().all(|service| row.offers(service))
                && keyword_matches(call, &[&row.name])
                && tags.passes(cloud, ResourceType::Network, &row.id)
        })
        .collect();
    answer(cloud, call, "network", rows, |(_, row)| json(cloud, row))
}

pub(crate) fn json<'a>(cloud: &'a Cloud, row: &'a Network) -> Object<'a> {
    let list = row.tier.and_then(|tier| tier.acl);
    let acl = list.and_then(|list| cloud.acl_lists.get(list));
    let vpc = row.vpc().and_then(|vpc| cloud.vpcs.get(vpc));
    let has_egress = row.tier.is_none() && row.kind == NetworkKind::Isolated;
    let routed = row.kind != NetworkKind::L2;
    let own = Object::new()
        .with("id", row.id.as_str())
        .with("name", row.name.as_str())
        .with("displaytext", row.display_text.as_str())
        .with("related", row.id.as_str())
        .with("broadcastdomaintype", "Vlan")
        .with("traffictype", "Guest")
        .with("type", row.type_name())
        .with("acltype", if row.kind == NetworkKind::Shared { "Domain" } else { "Account" })
        .with("state", if row.implemented { "Implemented" } else { "Allocated" })
        .maybe("cidr", routed.then(|| row.cidr.to_string()))
        .maybe("gateway", routed.then_some(row.gateway.as_str()))
        .maybe("netmask", routed.then(|| row.cidr.netmask().to_string()))
        .with("networkofferingid", row.offering.id.as_str())
        .with("networkofferingname", row.offering.name.as_str())
        .with("networkofferingdisplaytext", row.offering.name.as_str())
        .with("networkofferingconservemode", row.offering.conserve_mode)
        .with(
            "networkofferingavailability",
            if row.tier.is_some() { "Optional" } else { "Required" },
        )
        .with("physicalnetworkid", cloud.zone.physical_network.as_str())
        .with("service", services::of_network(row, &cloud.version));
    let vpc_fields = Object::new()
        .maybe("vpcid", vpc.map(|vpc| vpc.id.as_str()))
        .maybe("vpcname", vpc.map(|vpc| vpc.name.as_str()))
        .maybe("aclid", acl.map(|acl| acl.id.as_str()))
        .maybe("aclname", acl.map(|acl| acl.name.as_str()))
        .maybe("egressdefaultpolicy", has_egress.then_some(false));
    own.merge(cloud.zone_fields())
        .merge(cloud.owner_fields(row.owner))
        .merge(vpc_fields)
        .merge(constants(row))
        .with("created", row.created.as_str())
        .with("tags", inline_tags(cloud, ResourceType::Network, &row.id))
        .merge_extra(&row.extra)
        .of_release("network", &cloud.version)
}

/// How error texts show a network.
pub(crate) fn text(key: Key<Network>, row: &Network) -> String {
    format!(
        r#"Network {{"id": {}, "name": "{}", "uuid": "{}", "networkofferingid": 10}}"#,
        key.number(),
        row.name,
        row.id
    )
}

/// The domain of host names in a network.
pub(crate) fn network_domain(row: &Network) -> &str {
    row.extra.get("networkdomain").and_then(Value::as_str).unwrap_or(NETWORK_DOMAIN)
}

/// Fields that are the same for every network here.
fn constants(row: &Network) -> Object<'_> {
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
    use super::*;
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
    fn shared_networks_are_everybodys_and_balance_no_load() {
        let mut lab = Lab::new();
        let networks = &mut lab.simulator.cloud.networks;
        for (_, row) in networks.iter_mut().filter(|(_, row)| row.name == "foreign") {
            row.kind = NetworkKind::Shared;
            row.services = services::SHARED.iter().map(|name| (*name).to_owned()).collect();
        }
        let shared = lab.rows("listNetworks", &[("type", "shared")]).remove(0);
        assert_eq!((&shared["name"], &shared["acltype"]), (&"foreign".into(), &"Domain".into()));
        assert_eq!(shared["supportsvmautoscaling"], false);
        assert_eq!(lab.rows("listNetworks", &[("projectid", "-1")]).len(), 1);
        let lb = [("supportedservices", "Lb"), ("type", "shared")];
        assert_eq!(lab.rows("listNetworks", &lb).len(), 0);
    }

    #[test]
    fn a_wire_of_layer_2_has_neither_services_nor_addresses() {
        let mut lab = Lab::new();
        for (_, row) in
            lab.simulator.cloud.networks.iter_mut().filter(|(_, row)| row.name == "idle")
        {
            row.kind = NetworkKind::L2;
            row.services.clear();
        }
        let wire = lab.rows("listNetworks", &[("type", "L2")]).remove(0);
        assert_eq!((wire.get("cidr"), wire.get("gateway")), (None, None));
        assert_eq!(wire["service"], serde_json::json!([]));
    }

    #[test]
    fn an_internal_load_balancer_takes_no_public_rule() {
        let mut lab = Lab::new();
        for (_, row) in
            lab.simulator.cloud.networks.iter_mut().filter(|(_, row)| row.name == "tier")
        {
            row.offering.lb_scheme = LbScheme::Internal;
        }
        let tier = lab.rows("listNetworks", &[("name", "tier")]).remove(0);
        let lb = tier["service"].as_array().unwrap().iter().find(|one| one["name"] == "Lb");
        assert_eq!(lb.unwrap()["provider"][0]["name"], "InternalLbVm");
        let address = lab.address("203.0.113.3");
        let id = text(&tier["id"]);
        let more = [("networkid", id.as_str()), ("openfirewall", "ABSENT")];
        let params = crate::testing::rule_params(&address, "80", &more);
        assert_eq!(lab.refused("createLoadBalancerRule", &params).code, 431);
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
