//! What Linux says of this process (`/proc/self`). Elsewhere nothing is known.

use std::fs;
use std::time::Duration;

/// One reading.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Usage {
    pub(super) cpu: Duration,
    pub(super) resident_bytes: u64,
    pub(super) virtual_bytes: u64,
    pub(super) open_files: usize,
}

impl Usage {
    pub(super) fn read() -> Option<Self> {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        let status = fs::read_to_string("/proc/self/status").ok()?;
        Some(Self {
            cpu: cpu(&stat)?,
            resident_bytes: bytes(&status, "VmRSS:")?,
            virtual_bytes: bytes(&status, "VmSize:")?,
            open_files: fs::read_dir("/proc/self/fd").ok()?.count(),
        })
    }
}

/// `utime` and `stime`, the 14th and 15th field, in hundredths of a second on every Linux. The
/// second field is a name in parentheses, in which anything may stand.
fn cpu(stat: &str) -> Option<Duration> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(Duration::from_millis((user + system) * 10))
}

/// A line of `status`, in kB.
fn bytes(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_is_read_whatever_the_program_is_called() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 9 0 0 0 150 25 0 0 20 0 9 0 5 0 0";
        assert_eq!(cpu(stat), Some(Duration::from_millis(1750)));
        let status = "Name:\tx\nVmSize:\t    2000 kB\nVmRSS:\t 12 kB\n";
        assert_eq!(bytes(status, "VmRSS:"), Some(12 * 1024));
        assert_eq!(bytes(status, "VmSwap:"), None);
    }
}
