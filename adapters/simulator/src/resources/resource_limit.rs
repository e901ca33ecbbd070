//! How many public IP addresses accounts, projects and whole domains may hold.

use crate::answer::Answer;
use crate::cloud::{Cloud, Owner};
use crate::commands::{Call, Entity, Kind, Param, may, must};
use crate::error::ApiError;
use crate::object::Object;
use crate::resources::account::{Project, owner_account};
use crate::resources::domain::Domain;
use crate::resources::public_ip::AddressState;
use crate::table::Key;
use crate::versions::Feature;

/// `resourcetype` of public IP addresses, as number and as name.
const PUBLIC_IP: (&str, &str) = ("1", "public_ip");

/// Whether an owner may hold one more address: by its own limit, and by that of its domain and
/// those above it.
///
/// # Errors
/// 532, with the owner's account whichever limit is reached.
pub(crate) fn check_public_ips(cloud: &Cloud, owner: Owner) -> Result<(), ApiError> {
    let is_full = limits(cloud, owner).any(|(held, limit)| held >= limit);
    if !is_full {
        return Ok(());
    }
    let account = owner_account(cloud, owner);
    Err(ApiError::new(
        532,
        4280,
        format!("Maximum number of public IP addresses for account: {account} has been exceeded."),
    ))
}

/// Whether an owner holds more addresses than a limit allows: several acquisitions at the same time
/// all pass the check of their requests.
pub(crate) fn exceeds_public_ips(cloud: &Cloud, owner: Owner) -> bool {
    limits(cloud, owner).any(|(held, limit)| held > limit)
}

/// Every limit that an owner has, and what is held of it.
fn limits(cloud: &Cloud, owner: Owner) -> impl Iterator<Item = (usize, usize)> {
    let own = own_limit(cloud, owner).map(|limit| (held(cloud, |other| other == owner), limit));
    let domains = cloud.domains.iter().filter_map(move |(key, domain)| {
        let is_in = |other| cloud.domain_of(other).is_some_and(|inner| cloud.is_below(inner, key));
        let limit = domain.public_ip_limit.filter(|_| is_in(owner))?;
        Some((held(cloud, is_in), limit))
    });
    own.into_iter().chain(domains)
}

/// Addresses of some owners. Since 4.19.2 one counts when its acquisition is over.
fn held(cloud: &Cloud, counts: impl Fn(Owner) -> bool) -> usize {
    let late = cloud.version.has(Feature::IpLimitInJob);
    let owned = cloud.addresses.iter().map(|(_, row)| row);
    owned
        .filter(|row| !late || row.state != AddressState::Allocating)
        .filter(|row| row.owner.is_some_and(&counts))
        .count()
}

fn own_limit(cloud: &Cloud, owner: Owner) -> Option<usize> {
    match owner {
        Owner::Account(key) => cloud.accounts.get(key)?.public_ip_limit,
        Owner::Project(key) => cloud.projects.get(key)?.public_ip_limit,
    }
}

pub(crate) const UPDATE_PARAMS: &[Param] = &[
    must("resourcetype", Kind::Number),
    may("account", Kind::Text),
    may("domainid", Kind::Id(Entity::Domain)),
    may("projectid", Kind::Id(Entity::Project)),
    may("max", Kind::Number),
];

/// updateResourceLimit: of a project, of an account in a domain, or of a whole domain. A negative
/// number lifts the limit. Limits of other resources are accepted and have no effect.
pub(crate) fn update(cloud: &mut Cloud, call: &Call) -> Result<Answer, ApiError> {
    let asked = call.params.number("max").unwrap_or(-1);
    let kind = call.params.text("resourcetype").unwrap_or_default().to_owned();
    let limit = usize::try_from(asked).ok();
    let counts = kind == PUBLIC_IP.0;
    let shown = match limited(cloud, call)? {
        Limited::Owner(owner) => {
            if counts {
                set(cloud, owner, limit);
            }
            cloud.owner_fields(owner)
        }
        Limited::Domain(key) => {
            if let Some(domain) = cloud.domains.get_mut(key)
                && counts
            {
                domain.public_ip_limit = limit;
            }
            cloud.domain_fields(Some(key))
        }
    };
    let shown = shown
        .with("resourcetype", kind)
        .maybe("resourcetypename", counts.then_some(PUBLIC_IP.1))
        .with("max", asked);
    Ok(Object::new().with("resourcelimit", shown).into())
}

/// Whose limit it is.
enum Limited {
    Owner(Owner),
    Domain(Key<Domain>),
}

fn limited(cloud: &Cloud, call: &Call) -> Result<Limited, ApiError> {
    let own = cloud.domain_of(Owner::Account(call.caller)).ok_or_else(ApiError::permission)?;
    let domain = call.params.key::<Domain>("domainid").unwrap_or(own);
    let owner = match (call.params.key::<Project>("projectid"), call.params.filled("account")) {
        (Some(project), _) => Some(Owner::Project(project)),
        (None, Some(name)) => Some(cloud.account_in(domain, name)?),
        (None, None) => None,
    };
    match owner {
        Some(owner) if cloud.administers(call.caller, owner) => Ok(Limited::Owner(owner)),
        Some(_) => Err(ApiError::permission()),
        None if cloud.administers_domain(call.caller, domain) => Ok(Limited::Domain(domain)),
        None => Err(ApiError::permission()),
    }
}

/// Sets the limit of an account or project; `None` lifts it.
pub(crate) fn set(cloud: &mut Cloud, owner: Owner, limit: Option<usize>) {
    match owner {
        Owner::Account(key) => {
            if let Some(row) = cloud.accounts.get_mut(key) {
                row.public_ip_limit = limit;
            }
        }
        Owner::Project(key) => {
            if let Some(row) = cloud.projects.get_mut(key) {
                row.public_ip_limit = limit;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Lab;

    #[test]
    fn limits_of_account_project_and_domain_are_told_alike() {
        let mut lab = Lab::new();
        let iso = lab.id("listNetworks", "iso");
        let vpc = lab.id("listVPCs", "vpc");
        let shop = lab.id("listNetworks", "shop");
        let refused = |lab: &mut Lab, params: &[(&str, &str)], account: &str| {
            let refused = lab.by("prod").refused("associateIpAddress", params);
            assert_eq!((refused.code, refused.class), (532, Some(4280)));
            assert_eq!(
                refused.text,
                format!(
                    "Maximum number of public IP addresses for account: {account} has been exceeded."
                )
            );
        };
        lab.simulator.limit_public_ips("prod", Some(3)).unwrap();
        refused(&mut lab, &[("networkid", &iso)], "prod");
        refused(&mut lab, &[("vpcid", &vpc)], "prod");
        lab.simulator.limit_public_ips("prod", None).unwrap();
        lab.simulator.limit_public_ips("web", Some(1)).unwrap();
        refused(&mut lab, &[("networkid", &shop)], "PrjAcct-web-1");
        lab.simulator.limit_public_ips("web", None).unwrap();
        lab.simulator.limit_public_ips("ROOT", Some(1)).unwrap();
        refused(&mut lab, &[("networkid", &iso)], "prod");
        lab.simulator.limit_public_ips("ROOT", None).unwrap();
        lab.by("prod").run("associateIpAddress", &[("networkid", &iso)]);
    }

    #[test]
    fn the_loser_of_a_race_fails_in_its_job_and_gives_its_address_back() {
        let race = |mut lab: Lab| {
            let iso = lab.id("listNetworks", "iso");
            lab.simulator.limit_public_ips("prod", Some(4)).unwrap();
            let ask = [("networkid", iso.as_str())];
            let first = lab.ask("associateIpAddress", &ask);
            let second = lab.simulator.call("prod", "associateIpAddress", &ask, lab.now);
            let job = first["jobid"].as_str().unwrap().to_owned();
            lab.wait(5);
            let won = lab.ask("queryAsyncJobResult", &[("jobid", &job)])["jobstatus"] == 1;
            let held = lab.rows("listPublicIpAddresses", &[]).len();
            (second.status, won, held)
        };
        assert_eq!(race(Lab::slow(5)), (200, true, 4));
        assert_eq!(race(Lab::on("4.19.1")), (532, true, 4));
    }

    #[test]
    fn an_admin_sets_limits_through_the_api() {
        let mut lab = Lab::new();
        let limit = |max| [("resourcetype", "1"), ("account", "other"), ("max", max)];
        assert_eq!(lab.refused("updateResourceLimit", &limit("1")).code, 432);
        let shown = lab.by("root").ask("updateResourceLimit", &limit("1"));
        let shown = &shown["resourcelimit"];
        assert_eq!((&shown["account"], &shown["max"]), (&"other".into(), &1.into()));
        assert_eq!(
            (&shown["resourcetype"], &shown["resourcetypename"]),
            (&"1".into(), &"public_ip".into())
        );
        let foreign = lab.id("listNetworks", "foreign");
        let params = [("networkid", foreign.as_str())];
        assert_eq!(lab.by("other").refused("associateIpAddress", &params).code, 532);
        lab.by("root").ask("updateResourceLimit", &limit("-1"));
        lab.by("other").run("associateIpAddress", &params);
    }
}
