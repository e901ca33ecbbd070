//! Addresses that are set apart: reserved for an account without serving anything (from 4.17), or
//! in quarantine after a release (from 4.19).

use crate::answer::Answer;
use crate::cloud::{Cloud, Owner};
use crate::commands::{Call, Entity, Kind, Param, may, must};
use crate::error::ApiError;
use crate::jobs::success;
use crate::object::{Object, date};
use crate::resources::public_ip::{AddressState, PublicIp, json};
use crate::resources::resource_limit::check_public_ips;
use crate::table::Key;
use crate::versions::Feature;
use jiff::Timestamp;

/// An address that only its last owner may have again, until an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Quarantine {
    owner: Owner,
    until: Timestamp,
}

impl Quarantine {
    /// For an address that its owner gives back now, if the setting asks for one.
    pub(crate) fn after(cloud: &Cloud, owner: Option<Owner>) -> Option<Self> {
        let length = cloud.settings.quarantine;
        let applies = cloud.version.has(Feature::Quarantine) && !length.is_zero();
        let until = cloud.now.checked_add(length).ok()?;
        owner.filter(|_| applies).map(|owner| Self { owner, until })
    }

    /// Whether it keeps an owner from having the address.
    pub(crate) fn keeps_from(self, owner: Owner, now: Timestamp) -> bool {
        self.owner != owner && now < self.until
    }
}

pub(crate) const RESERVE_PARAMS: &[Param] =
    &[must("id", Kind::Id(Entity::Address)), may("projectid", Kind::Id(Entity::Project))];

pub(crate) const ID_PARAMS: &[Param] = &[must("id", Kind::Id(Entity::Address))];

/// reserveIpAddress: a free address gets an owner and the state Reserved, at once.
pub(crate) fn reserve(cloud: &mut Cloud, call: &Call) -> Result<Answer, ApiError> {
    let owner = call.params.key("projectid").map_or(Owner::Account(call.caller), Owner::Project);
    let key = asked(call);
    check_public_ips(cloud, owner)?;
    let now = date(cloud.now);
    match cloud.addresses.get_mut(key) {
        Some(row) if row.state == AddressState::Free => {
            row.state = AddressState::Reserved;
            row.owner = Some(owner);
            row.allocated = Some(now);
        }
        Some(_) | None => {
            return Err(ApiError::new(533, 9999, "Insufficient address capacity"));
        }
    }
    let row = cloud.addresses.get(key).ok_or_else(ApiError::permission)?;
    Ok(Object::new().with("ipaddress", json(cloud, key, row)).into())
}

/// releaseIpAddress: a reserved address is free again, at once.
pub(crate) fn release(cloud: &mut Cloud, call: &Call) -> Result<Answer, ApiError> {
    let key = asked(call);
    let owner = cloud.addresses.get(key).and_then(|row| row.owner);
    if !owner.is_some_and(|owner| cloud.may_use(call.caller, owner)) {
        return Err(ApiError::permission());
    }
    let quarantine = Quarantine::after(cloud, owner);
    match cloud.addresses.get_mut(key) {
        Some(row) if row.state == AddressState::Reserved => {
            row.state = AddressState::Free;
            row.owner = None;
            row.allocated = None;
            row.quarantine = quarantine;
            Ok(success().into())
        }
        Some(_) | None => Err(ApiError::invalid("Ip address is not in reserved state")),
    }
}

fn asked(call: &Call) -> Key<PublicIp> {
    call.params.required("id")
}

#[cfg(test)]
mod tests {
    use crate::testing::{Lab, text};

    const LIST: &str = "listPublicIpAddresses";

    fn free(lab: &mut Lab) -> String {
        let free = lab.rows(LIST, &[("state", "Free"), ("ipaddress", "203.0.113.12")]);
        text(&free[0]["id"])
    }

    #[test]
    fn a_reserved_address_is_hidden_and_nobody_elses() {
        let mut lab = Lab::new();
        let id = free(&mut lab);
        let this = [("id", id.as_str())];
        let made = lab.ask("reserveIpAddress", &this);
        assert_eq!(
            (&made["ipaddress"]["state"], &made["ipaddress"]["account"]),
            (&"Reserved".into(), &"prod".into())
        );
        assert_eq!(lab.rows(LIST, &this).len(), 0);
        assert_eq!(lab.rows(LIST, &[("id", &id), ("state", "Reserved")]).len(), 1);
        assert_eq!(lab.by("other").refused("releaseIpAddress", &this).code, 531);
        assert_eq!(lab.by("other").refused("reserveIpAddress", &this).code, 533);
        let done = lab.by("prod").ask("releaseIpAddress", &this);
        assert_eq!(done["success"], true);
        assert_eq!(lab.refused("releaseIpAddress", &this).code, 531);
        assert_eq!(Lab::on("4.16.0").refused("reserveIpAddress", &this).code, 401);
    }

    #[test]
    fn an_address_in_quarantine_is_for_its_last_owner_only() {
        let again = |release: &str, caller: &'static str, wait: i64| {
            let mut lab = Lab::on(release);
            lab.simulator.set("public.ip.address.quarantine.duration", "10").unwrap();
            let id = lab.address("203.0.113.2");
            lab.run("disassociateIpAddress", &[("id", &id)]);
            lab.wait(wait);
            let network = if caller == "prod" { "iso" } else { "foreign" };
            let network = lab.id("listNetworks", network);
            let params = [("networkid", network.as_str()), ("ipaddress", "203.0.113.2")];
            lab.by(caller);
            lab.simulator.call(caller, "associateIpAddress", &params, lab.now).status
        };
        assert_eq!(again("4.19.0", "other", 0), 533);
        assert_eq!(again("4.19.0", "prod", 0), 200);
        assert_eq!(again("4.19.0", "other", 600), 200);
        assert_eq!(again("4.18.2", "other", 0), 200);
    }

    #[test]
    fn portable_addresses_are_given_to_those_who_ask_for_one() {
        let mut lab = Lab::new();
        lab.simulator.cloud.addresses.iter_mut().for_each(|(_, row)| {
            row.portable = row.address.to_string() == "203.0.113.19";
        });
        let network = lab.id("listNetworks", "iso");
        let portable = [("networkid", network.as_str()), ("isportable", "true")];
        let made = lab.run("associateIpAddress", &portable);
        let made = &made["ipaddress"];
        assert_eq!(
            (&made["ipaddress"], &made["isportable"]),
            (&"203.0.113.19".into(), &true.into())
        );
        assert_eq!(lab.refused("associateIpAddress", &portable).code, 533);
    }
}
