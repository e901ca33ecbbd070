//! New credentials while a controller runs: a second user of its account, and a Secret as a kubelet
//! mounts it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use ccm_simulator::World;
use ccm_simulator::world::{KeyPair, User};

/// The user that [`add_second_user`] adds, and its API key and secret key.
pub const SECOND: (&str, &str, &str) = ("prod-2", "second-api-key", "second-secret-key");

/// Gives the account of the controller a second user.
pub fn add_second_user(world: &mut World) {
    let (name, api_key, secret_key) = SECOND;
    let pair = pair(api_key, secret_key);
    let user = User {
        name: name.to_owned(),
        key_pairs: vec![pair],
        state: ccm_simulator::world::State::default(),
        api_key_access: None,
        id: None,
    };
    let account = world.accounts.iter_mut().find(|account| account.name == "prod");
    account.expect("the account of the controller").users.push(user);
}

/// A key pair without limits.
pub fn pair(api_key: &str, secret_key: &str) -> KeyPair {
    KeyPair {
        name: None,
        api_key: api_key.to_owned(),
        secret_key: secret_key.to_owned(),
        rules: Vec::new(),
        start: None,
        end: None,
        id: None,
    }
}

/// A cloud-config with other keys.
pub fn with_keys(cloud_config: &str, api_key: &str, secret_key: &str) -> String {
    let with_key = |line: &str| match line.split_once(" = ") {
        Some(("api-key", _)) => format!("api-key = {api_key}\n"),
        Some(("secret-key", _)) => format!("secret-key = {secret_key}\n"),
        Some(_) | None => format!("{line}\n"),
    };
    cloud_config.lines().map(with_key).collect()
}

/// A Secret with one key, as a kubelet mounts it: the file is a link into `..data`, which is a link
/// to a folder that is made anew for each content. It goes with its owner.
pub struct MountedSecret {
    folder: PathBuf,
    key: &'static str,
    versions: u32,
}

impl MountedSecret {
    /// Mounts it as a new folder.
    pub fn new(folder: PathBuf, key: &'static str, content: &str) -> Self {
        fs::create_dir_all(&folder).expect("a folder");
        let mut secret = Self { folder, key, versions: 0 };
        secret.replace(content);
        symlink(Path::new("..data").join(key), secret.path()).expect("a link");
        secret
    }

    /// Where its content is found.
    pub fn path(&self) -> PathBuf {
        self.folder.join(self.key)
    }

    /// What is in it.
    pub fn content(&self) -> String {
        fs::read_to_string(self.path()).expect("its content")
    }

    /// Replaces its content at one stroke.
    pub fn replace(&mut self, content: &str) {
        self.versions += 1;
        let version = format!("..version-{}", self.versions);
        fs::create_dir(self.folder.join(&version)).expect("a folder of the new content");
        fs::write(self.folder.join(&version).join(self.key), content).expect("its new content");
        let new = self.folder.join("..data-new");
        symlink(&version, &new).expect("a link");
        fs::rename(new, self.folder.join("..data")).expect("a link at its place");
    }
}

impl Drop for MountedSecret {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}
