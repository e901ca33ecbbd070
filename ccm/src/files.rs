//! Reading files that people name: never more than such a file can have, also of `/dev/zero`.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use ccm_core::text::{self, NotText};

/// Most bytes of a cloud-config; a usual one has a few hundred.
pub(crate) const CLOUD_CONFIG_LIMIT: usize = 64 << 10;
/// Most bytes of a file of certificates or a key; the authorities that a system trusts have some
/// 250 KiB.
pub(crate) const CERTIFICATES_LIMIT: usize = 4 << 20;
/// Most bytes of a snapshot or a saved plan.
pub(crate) const SAVED_LIMIT: usize = 256 << 20;

/// The content of a file.
///
/// # Errors
/// If it can't be read, or is longer than `limit`.
pub(crate) fn bytes(path: &Path, limit: usize) -> io::Result<Vec<u8>> {
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    File::open(path)?.take(most).read_to_end(&mut bytes)?;
    if bytes.len() > limit { Err(no_text(NotText::TooLong { limit })) } else { Ok(bytes) }
}

/// The text of a file.
///
/// # Errors
/// As [`bytes`], or if it is no text.
pub(crate) fn text(path: &Path, limit: usize) -> io::Result<String> {
    text::decode(bytes(path, limit)?, limit).map_err(no_text)
}

fn no_text(why: NotText) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_without_end_is_read_up_to_the_limit() {
        let told = bytes(Path::new("/dev/zero"), 10).unwrap_err().to_string();
        assert!(told.contains("more than 10 bytes"), "{told}");
        assert!(bytes(Path::new("/dev/null"), 0).is_ok());
    }
}
