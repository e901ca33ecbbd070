//! What an operator does beside the controller: settings, states of accounts, users and the zone,
//! limits. All of it takes effect at once, at the time of the last request.

use crate::cloud::Owner;
use crate::edits::EditError;
use crate::resources::account::Account;
use crate::resources::resource_limit;
use crate::resources::user::User;
use crate::simulator::Simulator;
use crate::table::Key;
use crate::world::build::{self, named};
use crate::world::{KeyPair, State, WorldError};

impl Simulator {
    /// Changes a global setting, by its name in CloudStack such as `api.throttling.max`.
    ///
    /// # Errors
    /// If it means nothing here, or the value does not fit.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), EditError> {
        Ok(self.cloud.settings.set(name, value)?)
    }

    /// Enables or disables the zone. A disabled one is hidden from users and gives no addresses;
    /// rules go on.
    pub fn enable_zone(&mut self, enabled: bool) {
        self.cloud.zone.enabled = enabled;
    }

    /// Enables, disables or locks an account, by name or id.
    ///
    /// # Errors
    /// If there is none.
    pub fn set_account_state(&mut self, account: &str, state: State) -> Result<(), EditError> {
        let key = self.account(account)?;
        if let Some(row) = self.cloud.accounts.get_mut(key) {
            row.state = state;
        }
        Ok(())
    }

    /// Enables, disables or locks a user, by name or id.
    ///
    /// # Errors
    /// If there is none.
    pub fn set_user_state(&mut self, user: &str, state: State) -> Result<(), EditError> {
        let key = self.user(user)?;
        if let Some(row) = self.cloud.users.get_mut(key) {
            row.state = state;
        }
        Ok(())
    }

    /// Says whether a user may use API keys (from 4.20.1), by name or id; `None` leaves it to its
    /// account and the setting.
    ///
    /// # Errors
    /// If there is no such user.
    pub fn set_api_key_access(
        &mut self,
        user: &str,
        access: Option<bool>,
    ) -> Result<(), EditError> {
        let key = self.user(user)?;
        if let Some(row) = self.cloud.users.get_mut(key) {
            row.api_key_access = access;
        }
        Ok(())
    }

    /// Gives a user one more key pair (from 4.23), by name or id, and returns the pair's id.
    ///
    /// # Errors
    /// If there is no such user.
    pub fn add_key_pair(&mut self, user: &str, pair: &KeyPair) -> Result<String, EditError> {
        let key = self.user(user)?;
        let id = pair.id.clone().unwrap_or_else(|| self.cloud.ids.next_id());
        build::add_pair(&mut self.cloud, key, pair, id.clone());
        Ok(id)
    }

    /// Limits the public IP addresses of an account, project or domain, by name or id; `None` lifts
    /// the limit.
    ///
    /// # Errors
    /// If there is none of that name or id.
    pub fn limit_public_ips(&mut self, of: &str, limit: Option<usize>) -> Result<(), EditError> {
        if let Some(key) = named(&self.cloud.accounts, of, |row| &row.name) {
            resource_limit::set(&mut self.cloud, Owner::Account(key), limit);
        } else if let Some(key) = named(&self.cloud.projects, of, |row| &row.name) {
            resource_limit::set(&mut self.cloud, Owner::Project(key), limit);
        } else {
            let key = named(&self.cloud.domains, of, |row| &row.name);
            let row = key.and_then(|key| self.cloud.domains.get_mut(key));
            row.ok_or_else(|| unknown("account, project or domain", of))?.public_ip_limit = limit;
        }
        Ok(())
    }

    fn account(&self, name: &str) -> Result<Key<Account>, EditError> {
        named(&self.cloud.accounts, name, |row| &row.name).ok_or_else(|| unknown("account", name))
    }

    fn user(&self, name: &str) -> Result<Key<User>, EditError> {
        named(&self.cloud.users, name, |row| &row.name).ok_or_else(|| unknown("user", name))
    }
}

fn unknown(kind: &'static str, name: &str) -> EditError {
    WorldError::Unknown { place: "operator".to_owned(), kind, name: name.to_owned() }.into()
}

#[cfg(test)]
mod tests {
    use crate::testing::Lab;
    use crate::world::{KeyPair, KeyRule, Permission, State};

    fn listed(lab: &mut Lab) -> u16 {
        lab.signed("AKother", "SKother", "listZones").0
    }

    #[test]
    fn nobody_but_the_enabled_gets_an_answer() {
        let mut lab = Lab::new();
        for state in [State::Locked, State::Disabled] {
            lab.simulator.set_account_state("other", state).unwrap();
            assert_eq!(listed(&mut lab), 401, "{state:?}");
            assert_eq!(lab.by("other").refused("listZones", &[]).code, 401);
            lab.simulator.set_account_state("other", State::Enabled).unwrap();
            assert_eq!(listed(&mut lab), 200);
            lab.simulator.set_user_state("other", state).unwrap();
            assert_eq!(listed(&mut lab), 401, "{state:?}");
            lab.simulator.set_user_state("other", State::Enabled).unwrap();
        }
        let lock = [("account", "other"), ("lock", "true")];
        assert_eq!(lab.by("other").refused("disableAccount", &lock).code, 432);
        let locked = lab.by("root").run("disableAccount", &lock);
        assert_eq!(locked["account"]["state"], "locked");
        assert_eq!(listed(&mut lab), 401);
    }

    #[test]
    fn keys_are_turned_off_by_user_account_or_setting_from_4_20_1_on() {
        let mut lab = Lab::new();
        lab.simulator.set_api_key_access("other", Some(false)).unwrap();
        assert_eq!(listed(&mut lab), 401);
        assert_eq!(lab.signed("AKprod", "SKprod", "listZones").0, 200);
        lab.simulator.set_api_key_access("other", None).unwrap();
        lab.simulator.set("api.key.access", "false").unwrap();
        assert_eq!(listed(&mut lab), 401);
        lab.simulator.set_api_key_access("other", Some(true)).unwrap();
        assert_eq!(listed(&mut lab), 200);
        let mut old = Lab::on("4.20.0");
        old.simulator.set("api.key.access", "false").unwrap();
        assert_eq!(listed(&mut old), 200);
    }

    #[test]
    fn a_disabled_zone_is_hidden_and_gives_no_addresses() {
        let mut lab = Lab::new();
        let network = lab.id("listNetworks", "iso");
        lab.simulator.enable_zone(false);
        assert_eq!(lab.rows("listZones", &[]).len(), 0);
        let refused = lab.refused("associateIpAddress", &[("networkid", &network)]);
        assert_eq!((refused.code, refused.class), (531, Some(4365)));
        assert!(
            refused.text.starts_with(
                "Cannot allocate IP addresses, Zone {\"id\": \"1\", \"name\": \"zone-1\""
            ),
            "{}",
            refused.text
        );
        lab.rule("80", &[]);
        assert_eq!(lab.by("root").column("listZones", &[], "allocationstate"), ["Disabled"]);
    }

    #[test]
    fn a_pair_given_by_an_operator_is_narrow_if_its_rules_are() {
        let mut lab = Lab::new();
        let rule = KeyRule { rule: "list*".to_owned(), permission: Permission::Allow };
        let pair = KeyPair {
            name: None,
            api_key: "AK2".to_owned(),
            secret_key: "SK2".to_owned(),
            rules: vec![rule],
            start: None,
            end: None,
            id: None,
        };
        lab.simulator.add_key_pair("prod", &pair).unwrap();
        assert_eq!(lab.signed("AK2", "SK2", "listZones").0, 200);
        assert_eq!(lab.signed("AK2", "SK2", "createTags").0, 432);
    }
}
