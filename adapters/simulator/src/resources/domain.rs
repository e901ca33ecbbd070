//! Domains: a tree in which accounts and projects lie.

use crate::table::Row;

/// A domain.
#[derive(Debug, Clone)]
pub(crate) struct Domain {
    pub(crate) id: String,
    pub(crate) name: String,
    /// Names from the root on, joined with slashes.
    pub(crate) path: String,
    /// Addresses of all accounts and projects in it and below it.
    pub(crate) public_ip_limit: Option<usize>,
}

impl Row for Domain {
    fn id(&self) -> &str {
        &self.id
    }
}

impl Domain {
    /// Whether it is another domain or lies below it.
    pub(crate) fn is_below(&self, above: &Self) -> bool {
        self.path
            .strip_prefix(&above.path)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}
