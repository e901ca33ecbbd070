//! Port-forwarding rules: records only. They keep ports of an address taken; no command makes or
//! lists them.

use crate::resources::public_ip::PublicIp;
use crate::table::{Key, Row};

/// A port-forwarding rule. It conflicts with load-balancer rules on its public ports, whatever its
/// protocol.
#[derive(Debug, Clone)]
pub(crate) struct PortForward {
    pub(crate) id: String,
    pub(crate) address: Key<PublicIp>,
    pub(crate) first: u16,
    pub(crate) last: u16,
}

impl Row for PortForward {
    fn id(&self) -> &str {
        &self.id
    }
}
