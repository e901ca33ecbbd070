//! Ids that look like CloudStack's and come from a seed: the same seed and the same requests give
//! the same bytes.

/// A source of UUIDs of version 4, in lower case.
#[derive(Debug, Clone)]
pub(crate) struct IdSource {
    state: u64,
}

impl IdSource {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next UUID; it never repeats within one simulator.
    pub(crate) fn next_id(&mut self) -> String {
        let high = self.next_word();
        let low = self.next_word();
        let version = (high & 0xffff_ffff_ffff_0fff) | 0x4000;
        let variant = (low & 0x3fff_ffff_ffff_ffff) | 0x8000_0000_0000_0000;
        format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            version >> 32,
            (version >> 16) & 0xffff,
            version & 0xffff,
            variant >> 48,
            variant & 0xffff_ffff_ffff
        )
    }

    /// A number below a hundred.
    pub(crate) fn next_percent(&mut self) -> u8 {
        u8::try_from(self.next_word() % 100).unwrap_or(0)
    }

    /// The next API key or secret key: 86 letters and digits, as CloudStack's are long.
    pub(crate) fn next_secret(&mut self) -> String {
        let words: Vec<String> = (0..6).map(|_| format!("{:016x}", self.next_word())).collect();
        words.concat().chars().take(86).collect()
    }

    /// The splitmix64 generator: small, well spread, and the same on every machine.
    fn next_word(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }
}

/// Whether a text has the form of a UUID, in any letter case.
pub(crate) fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.char_indices().all(|(at, letter)| match at {
            8 | 13 | 18 | 23 => letter == '-',
            _ => letter.is_ascii_hexdigit(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_gives_the_same_ids() {
        let mut one = IdSource::new(7);
        let mut two = IdSource::new(7);
        assert_eq!([one.next_id(), one.next_id()], [two.next_id(), two.next_id()]);
        assert_ne!(IdSource::new(8).next_id(), IdSource::new(7).next_id());
    }

    #[test]
    fn ids_look_like_version_four_in_lower_case() {
        let mut source = IdSource::new(0);
        for _ in 0..100 {
            let id = source.next_id();
            assert!(is_uuid(&id), "{id}");
            assert_eq!(id, id.to_lowercase());
            assert_eq!(&id[14..15], "4");
            assert!(matches!(&id[19..20], "8" | "9" | "a" | "b"));
        }
    }

    #[test]
    fn text_that_is_no_uuid_is_told_apart() {
        assert!(is_uuid("EE1873D7-9fca-49fc-8367-998292496c15"));
        assert!(!is_uuid("xyz"));
        assert!(!is_uuid("ee1873d7-9fca-49fc-8367-998292496c1é"));
        assert!(!is_uuid("ee1873d7a9fca-49fc-8367-998292496c15"));
    }
}
