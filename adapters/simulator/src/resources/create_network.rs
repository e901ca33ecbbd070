//! createVPCOffering, createVPC and createNetwork: networks that come later.

use ipnet::Ipv4Net;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::cloud::{Cloud, Extra, Owner};
use crate::commands::{Call, Entity, Kind, Param, may, must};
use crate::error::{ApiError, JobFailure};
use crate::jobs::{Accepted, Instance, Work};
use crate::object::{Object, date};
use crate::params::Params;
use crate::resources::network::{self, Network, Offering, Tier};
use crate::resources::network_acl::AclList;
use crate::resources::vpc::{self, Vpc};
use crate::resources::{associate_ip, services};
use crate::table::{Key, Row};
use crate::world::{LbScheme, NetworkKind};

/// What VPCs are made from.
#[derive(Debug, Clone)]
pub(crate) struct VpcOffering {
    pub(crate) id: String,
    pub(crate) name: String,
    display_text: String,
    services: Vec<String>,
    conserve_mode: bool,
    enabled: bool,
    created: String,
}

impl Row for VpcOffering {
    fn id(&self) -> &str {
        &self.id
    }
}

pub(crate) const OFFERING_PARAMS: &[Param] = &[
    must("name", Kind::Text),
    may("displaytext", Kind::Text),
    may("supportedservices", Kind::List),
    may("serviceproviderlist", Kind::Map),
    may("conservemode", Kind::Flag),
];

pub(crate) const UPDATE_OFFERING_PARAMS: &[Param] =
    &[must("id", Kind::Id(Entity::VpcOffering)), may("state", Kind::Text)];

pub(crate) const VPC_PARAMS: &[Param] = &[
    must("name", Kind::Text),
    must("zoneid", Kind::Id(Entity::Zone)),
    must("vpcofferingid", Kind::Text),
    may("cidr", Kind::Text),
    may("displaytext", Kind::Text),
    may("projectid", Kind::Id(Entity::Project)),
];

pub(crate) const NETWORK_PARAMS: &[Param] = &[
    must("name", Kind::Text),
    must("zoneid", Kind::Id(Entity::Zone)),
    must("networkofferingid", Kind::Text),
    may("displaytext", Kind::Text),
    may("vpcid", Kind::Id(Entity::Vpc)),
    may("gateway", Kind::Text),
    may("netmask", Kind::Text),
    may("aclid", Kind::Id(Entity::AclList)),
    may("projectid", Kind::Id(Entity::Project)),
];

/// Jobs about these name no object.
fn made(id: String, number: u64) -> Accepted {
    let instance = Some(Instance { kind: "None", id: None });
    Accepted { id: Some(id), number, instance }
}

/// `displaytext`, by default the name.
fn display_text(params: &Params) -> String {
    let name = params.text("name").unwrap_or_default();
    params.filled("displaytext").unwrap_or(name).to_owned()
}

/// createVPCOffering, with the request. An offering begins disabled.
#[expect(clippy::unnecessary_wraps, reason = "the signature of all commands")]
pub(crate) fn accept_offering(cloud: &mut Cloud, call: &Call) -> Result<Accepted, ApiError> {
    let params = &call.params;
    let id = cloud.ids.next_id();
    let key = cloud.vpc_offerings.insert(VpcOffering {
        id: id.clone(),
        name: params.text("name").unwrap_or_default().to_owned(),
        display_text: display_text(params),
        services: params.list("supportedservices").unwrap_or_default(),
        conserve_mode: params.flag("conservemode") == Some(true),
        enabled: false,
        created: date(cloud.now),
    });
    Ok(made(id, key.number()))
}

/// createVPCOffering, in the job.
pub(crate) fn start_offering(
    cloud: &mut Cloud,
    _: &Call,
    accepted: &Accepted,
) -> Result<Work, JobFailure> {
    offering_result(cloud, Key::of(accepted.number))
}

/// updateVPCOffering, with the request: its jobs name the kind only.
#[expect(clippy::unnecessary_wraps, reason = "the signature of all commands")]
pub(crate) fn accept_update_offering(_: &mut Cloud, call: &Call) -> Result<Accepted, ApiError> {
    let number = call.params.key::<VpcOffering>("id").map_or(0, Key::number);
    let instance = Some(Instance { kind: "VpcOffering", id: None });
    Ok(Accepted { id: None, number, instance })
}

/// updateVPCOffering, in the job: it is enabled or disabled.
pub(crate) fn start_update_offering(
    cloud: &mut Cloud,
    call: &Call,
    accepted: &Accepted,
) -> Result<Work, JobFailure> {
    let key = Key::of(accepted.number);
    if let Some(row) = cloud.vpc_offerings.get_mut(key) {
        row.enabled = call.params.text("state") == Some("Enabled");
    }
    offering_result(cloud, key)
}

fn offering_result(cloud: &Cloud, key: Key<VpcOffering>) -> Result<Work, JobFailure> {
    let Some(row) = cloud.vpc_offerings.get(key) else {
        return Err(JobFailure::invalid("Unable to find VPC offering by id"));
    };
    let router = json!([{"name": "VpcVirtualRouter"}]);
    let services: Vec<Value> =
        row.services.iter().map(|name| json!({"name": name, "provider": router})).collect();
    let shown = Object::new()
        .with("id", row.id.as_str())
        .with("name", row.name.as_str())
        .with("displaytext", row.display_text.as_str())
        .with("created", row.created.as_str())
        .with("isdefault", false)
        .with("state", if row.enabled { "Enabled" } else { "Disabled" })
        .with("service", services)
        .with("distributedvpcrouter", false)
        .with("supportsregionLevelvpc", false)
        .with("fornsx", false)
        .with("internetprotocol", "IPv4")
        .with("specifyasnumber", false)
        .with("conservemode", row.conserve_mode);
    Ok(Work::Done(Object::new().with("vpcoffering", shown).into()))
}

/// createVPC, with the request, from an enabled offering or that of another VPC. It takes a public IP
/// address for source NAT.
pub(crate) fn accept_vpc(cloud: &mut Cloud, call: &Call) -> Result<Accepted, ApiError> {
    let params = &call.params;
    let owner = params.key("projectid").map_or(Owner::Account(call.caller), Owner::Project);
    let asked = params.text("vpcofferingid").unwrap_or_default();
    let (services, conserve_mode, offering_name) = vpc_model(cloud, asked)?;
    let cidr = params.text("cidr").unwrap_or_default();
    let cidr: Ipv4Net = cidr.parse().map_err(|_| ApiError::invalid("Invalid CIDR of the VPC"))?;
    let source_nat = associate_ip::pick(cloud, owner, None, false)?;
    let id = cloud.ids.next_id();
    let key = cloud.vpcs.insert(Vpc {
        id: id.clone(),
        name: params.text("name").unwrap_or_default().to_owned(),
        display_text: display_text(params),
        owner,
        cidr: cidr.to_string(),
        created: date(cloud.now),
        services,
        offering_id: asked.to_owned(),
        offering_name,
        conserve_mode,
        extra: network_domain(call),
    });
    let allocated = date(cloud.now);
    if let Some(row) = cloud.addresses.get_mut(source_nat) {
        row.give_to_vpc(owner, key, allocated);
    }
    Ok(made(id, key.number()))
}

/// Services, conserve mode and name of an offering.
fn vpc_model(cloud: &Cloud, id: &str) -> Result<(Vec<String>, bool, String), ApiError> {
    if let Some(row) = cloud.vpc_offerings.find(id).and_then(|key| cloud.vpc_offerings.get(key)) {
        if !row.enabled {
            return Err(ApiError::invalid("VPC offering is not enabled"));
        }
        return Ok((row.services.clone(), row.conserve_mode, row.name.clone()));
    }
    let known = cloud.vpcs.iter().map(|(_, vpc)| vpc).find(|vpc| vpc.offering_id == id);
    let known = known.ok_or_else(|| ApiError::invalid("Unable to find VPC offering by id"))?;
    Ok((known.services.clone(), known.conserve_mode, known.offering_name.clone()))
}

/// The domain of host names is made from the number of the account.
fn network_domain(call: &Call) -> Extra {
    let domain = format!("cs{:x}cloud.internal", call.caller.number());
    Extra::from([("networkdomain".to_owned(), domain.into())])
}

/// createVPC, in the job.
pub(crate) fn start_vpc(
    cloud: &mut Cloud,
    _: &Call,
    accepted: &Accepted,
) -> Result<Work, JobFailure> {
    let key = Key::of(accepted.number);
    match cloud.vpcs.get(key) {
        Some(row) => Ok(Work::Done(Object::new().with("vpc", vpc::json(cloud, key, row)).into())),
        None => Err(JobFailure::internal("Failed to create VPC")),
    }
}

/// createNetwork, at once: an isolated network, or a tier. No router serves it yet.
pub(crate) fn create(cloud: &mut Cloud, call: &Call) -> Result<Answer, ApiError> {
    let params = &call.params;
    let vpc = params.key::<Vpc>("vpcid");
    let owner = match vpc {
        Some(vpc) => cloud.vpcs.get(vpc).map(|row| row.owner).ok_or_else(ApiError::permission)?,
        None => params.key("projectid").map_or(Owner::Account(call.caller), Owner::Project),
    };
    if !cloud.may_use(call.caller, owner) {
        return Err(ApiError::permission());
    }
    let cidr = asked_cidr(cloud, params, vpc)?;
    let (offering, services) = model(cloud, params, vpc.is_some());
    let id = cloud.ids.next_id();
    let key = cloud.networks.insert(Network {
        id,
        name: params.text("name").unwrap_or_default().to_owned(),
        display_text: display_text(params),
        owner,
        kind: NetworkKind::Isolated,
        gateway: cidr.hosts().next().unwrap_or_else(|| cidr.addr()).to_string(),
        cidr,
        created: date(cloud.now),
        implemented: false,
        services,
        offering,
        tier: vpc.map(|vpc| Tier { vpc, acl: params.key::<AclList>("aclid") }),
        extra: network_domain(call),
    });
    let row = cloud.networks.get(key).ok_or_else(ApiError::permission)?;
    Ok(Object::new().with("network", network::json(cloud, row)).into())
}

/// The network of `gateway` and `netmask`, which a tier must have and which must lie in its VPC.
fn asked_cidr(cloud: &Cloud, params: &Params, vpc: Option<Key<Vpc>>) -> Result<Ipv4Net, ApiError> {
    let refused = || ApiError::invalid("Invalid gateway or netmask");
    let (gateway, netmask) = match (params.filled("gateway"), params.filled("netmask")) {
        (None, None) if vpc.is_none() => ("10.1.1.1", "255.255.255.0"),
        (gateway, netmask) => (gateway.ok_or_else(refused)?, netmask.ok_or_else(refused)?),
    };
    let gateway = gateway.parse().map_err(|_| refused())?;
    let netmask = netmask.parse().map_err(|_| refused())?;
    let cidr = Ipv4Net::with_netmask(gateway, netmask).map_err(|_| refused())?.trunc();
    let around = vpc.and_then(|vpc| cloud.vpcs.get(vpc)).and_then(|vpc| vpc.cidr.parse().ok());
    if around.is_some_and(|around: Ipv4Net| !around.contains(&cidr)) {
        return Err(ApiError::invalid("Network CIDR is not within the VPC's super CIDR"));
    }
    Ok(cidr)
}

/// The offering of an id as other networks have it, or one of the usual services.
fn model(cloud: &Cloud, params: &Params, is_tier: bool) -> (Offering, Vec<String>) {
    let asked = params.text("networkofferingid").unwrap_or_default();
    let known = cloud.networks.iter().find(|(_, row)| row.offering.id == asked);
    if let Some((_, row)) = known {
        return (row.offering.clone(), row.services.clone());
    }
    let (name, services) = if is_tier {
        ("DefaultIsolatedNetworkOfferingForVpcNetworks", services::TIER)
    } else {
        ("DefaultIsolatedNetworkOfferingWithSourceNatService", services::ISOLATED)
    };
    let offering = Offering {
        id: asked.to_owned(),
        name: name.to_owned(),
        conserve_mode: true,
        lb_scheme: LbScheme::Public,
    };
    (offering, services.iter().map(|name| (*name).to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use crate::testing::{Lab, text};

    #[test]
    fn a_vpc_with_firewall_and_conserve_mode_is_made_from_its_offering() {
        let mut lab = Lab::new();
        let zone = lab.id("listZones", "zone-1");
        let offering = [
            ("name", "fw"),
            ("supportedservices", "Dhcp,Lb,NetworkACL,Firewall"),
            ("conservemode", "true"),
        ];
        assert_eq!(lab.refused("createVPCOffering", &offering).code, 432);
        let made = lab.by("root").run("createVPCOffering", &offering);
        let id = text(&made["vpcoffering"]["id"]);
        let vpc = [
            ("name", "late"),
            ("zoneid", zone.as_str()),
            ("vpcofferingid", id.as_str()),
            ("cidr", "10.30.0.0/16"),
        ];
        assert_eq!(lab.by("prod").refused("createVPC", &vpc).code, 431);
        let enable = [("id", id.as_str()), ("state", "Enabled")];
        let enabled = lab.by("root").run("updateVPCOffering", &enable);
        assert_eq!(enabled["vpcoffering"]["state"], "Enabled");
        let made = lab.by("prod").run("createVPC", &vpc)["vpc"].clone();
        assert_eq!(
            (&made["vpcofferingconservemode"], &made["vpcofferingname"]),
            (&true.into(), &"fw".into())
        );
        let vpc = text(&made["id"]);
        let mut tier = vec![
            ("name", "late-1"),
            ("zoneid", &zone),
            ("networkofferingid", "o"),
            ("vpcid", &vpc),
            ("gateway", "10.30.2.1"),
            ("netmask", "255.255.255.0"),
        ];
        let made = lab.ask("createNetwork", &tier)["network"].clone();
        assert_eq!((&made["cidr"], &made["state"]), (&"10.30.2.0/24".into(), &"Allocated".into()));
        tier[4].1 = "10.31.2.1";
        assert_eq!(lab.refused("createNetwork", &tier).code, 431);
        assert_eq!(lab.by("other").refused("createNetwork", &tier).code, 531);
    }

    #[test]
    fn an_isolated_network_has_its_usual_addresses() {
        let mut lab = Lab::new();
        let zone = lab.id("listZones", "zone-1");
        let params = [("name", "late"), ("zoneid", &*zone), ("networkofferingid", "o")];
        let made = lab.ask("createNetwork", &params)["network"].clone();
        assert_eq!((&made["cidr"], &made["gateway"]), (&"10.1.1.0/24".into(), &"10.1.1.1".into()));
        assert_eq!(lab.rows("listNetworks", &[("name", "late")]).len(), 1);
    }
}
