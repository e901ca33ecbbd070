//! Free ports. They come from below the range that the kernel gives to outgoing connections, or such
//! a connection may hold one just when its server starts.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

const FIRST: u32 = 20_000;
/// Below 32768, where the kernel's own begin.
const COUNT: u32 = 12_000;

/// A port that nobody listens on; another one at each call.
pub(crate) fn free() -> u16 {
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    // Runs beside each other start at different places.
    let start = std::process::id().wrapping_mul(100);
    let offset = || start.wrapping_add(TAKEN.fetch_add(1, Ordering::Relaxed)) % COUNT;
    let mut ports = (0..COUNT).filter_map(|_| u16::try_from(FIRST + offset()).ok());
    let free = ports.find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok());
    free.expect("a free port")
}
