//! Domains, accounts with their users and key pairs, and projects of a world file.

use super::{Builder, named};
use crate::cloud::Cloud;
use crate::object::date;
use crate::resources::account::{Account, Project};
use crate::resources::domain::Domain;
use crate::resources::user::{self, User};
use crate::table::{Key, Table};
use crate::world::{self, World, WorldError};

impl Builder {
    pub(super) fn owners(&mut self, world: &World) -> Result<(), WorldError> {
        for domain in &world.domains {
            let id = match &domain.id {
                Some(id) => id.clone(),
                None => self.late_ids.next_id(),
            };
            self.domain(id, domain);
        }
        for (at, account) in world.accounts.iter().enumerate() {
            self.account(&format!("accounts[{at}]"), account)?;
        }
        for (at, project) in world.projects.iter().enumerate() {
            self.project(&format!("projects[{at}]"), world, project)?;
        }
        for (at, account) in world.accounts.iter().enumerate() {
            self.check_projects(&format!("accounts[{at}]"), account)?;
        }
        Ok(())
    }

    pub(super) fn domain(&mut self, id: String, domain: &world::Domain) {
        let number = domain_number(&self.cloud.domains, domain);
        self.cloud.domains.insert_at(
            number,
            Domain {
                id,
                name: domain.name.clone(),
                path: domain.path.clone(),
                public_ip_limit: domain.limits.public_ips,
            },
        );
    }

    fn domain_named(&self, place: &str, name: Option<&str>) -> Result<Key<Domain>, WorldError> {
        let Some(name) = name else {
            return Ok(self.main_domain);
        };
        named(&self.cloud.domains, name, |row| &row.name).ok_or_else(|| WorldError::Unknown {
            place: format!("{place}.domain"),
            kind: "domain",
            name: name.to_owned(),
        })
    }

    fn account(&mut self, place: &str, account: &world::Account) -> Result<(), WorldError> {
        let domain = self.domain_named(place, account.domain.as_deref())?;
        let id = self.id(account.id.as_ref());
        let first = User {
            id: self.id(account.user.as_ref()),
            name: account.name.clone(),
            account: Key::of(0),
            state: world::State::Enabled,
            api_key_access: None,
            pairs: Vec::new(),
        };
        let key = self.cloud.accounts.insert_numbered(
            account.number,
            Account {
                id,
                name: account.name.clone(),
                domain,
                role: account.role,
                state: account.state,
                api_key_access: account.api_key_access,
                public_ip_limit: account.limits.public_ips,
            },
        );
        self.user(User { account: key, ..first }, &first_pairs(account));
        for user in &account.users {
            let id = match &user.id {
                Some(id) => id.clone(),
                None => self.late_ids.next_id(),
            };
            let row = User {
                id,
                name: user.name.clone(),
                account: key,
                state: user.state,
                api_key_access: user.api_key_access,
                pairs: Vec::new(),
            };
            self.user(row, &user.key_pairs);
        }
        Ok(())
    }

    fn user(&mut self, user: User, pairs: &[world::KeyPair]) {
        let key = self.cloud.users.insert(user);
        for pair in pairs {
            let id = match &pair.id {
                Some(id) => id.clone(),
                None => self.late_ids.next_id(),
            };
            add_pair(&mut self.cloud, key, pair, id);
        }
    }

    fn project(
        &mut self,
        place: &str,
        world: &World,
        project: &world::Project,
    ) -> Result<(), WorldError> {
        let domain = self.domain_named(place, project.domain.as_deref())?;
        let id = self.id(project.id.as_ref());
        let members = world
            .accounts
            .iter()
            .filter(|account| account.projects.contains(&project.name))
            .filter_map(|account| named(&self.cloud.accounts, &account.name, |row| &row.name))
            .collect();
        self.cloud.projects.insert(Project {
            id,
            name: project.name.clone(),
            display_text: project.name.clone(),
            domain,
            created: self.started.clone(),
            members,
            public_ip_limit: project.limits.public_ips,
            extra: project.extra.clone(),
        });
        Ok(())
    }

    fn check_projects(&self, place: &str, account: &world::Account) -> Result<(), WorldError> {
        let unknown = account
            .projects
            .iter()
            .find(|name| named(&self.cloud.projects, name, |row| &row.name).is_none());
        match unknown {
            None => Ok(()),
            Some(name) => Err(WorldError::Unknown {
                place: format!("{place}.projects"),
                kind: "project",
                name: name.clone(),
            }),
        }
    }
}

/// The number of a domain in the database: what the file says, 1 for the root, or else the next
/// one after the root's.
pub(super) fn domain_number(domains: &Table<Domain>, domain: &world::Domain) -> u64 {
    let is_root = !domain.path.contains('/');
    let next = domains.iter().map(|(key, _)| key.number() + 1).fold(2, u64::max);
    domain.number.unwrap_or(if is_root { 1 } else { next })
}

/// The pairs of an account's first user: that of its keys, if it has any, and the further ones.
fn first_pairs(account: &world::Account) -> Vec<world::KeyPair> {
    let own = (!account.api_key.is_empty()).then(|| world::KeyPair {
        name: None,
        api_key: account.api_key.clone(),
        secret_key: account.secret_key.clone(),
        rules: Vec::new(),
        start: None,
        end: None,
        id: None,
    });
    own.into_iter().chain(account.key_pairs.iter().cloned()).collect()
}

/// Adds a key pair to a user.
pub(crate) fn add_pair(cloud: &mut Cloud, user: Key<User>, pair: &world::KeyPair, id: String) {
    let created = date(cloud.now.max(cloud.started));
    if let Some(row) = cloud.users.get_mut(user) {
        row.pairs.push(user::KeyPair {
            id,
            name: pair.name.clone().unwrap_or_else(|| user::usual_pair_name(user)),
            api_key: pair.api_key.clone(),
            secret_key: pair.secret_key.clone(),
            rules: pair.rules.clone(),
            start: pair.start,
            end: pair.end,
            created,
        });
    }
}
