//! Recorded addresses that readings don't show. A list may show the past, or leave something out: an
//! address counts as gone once every reading of some minutes agrees.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use crate::ids::PublicIpId;

/// What is recorded and was not seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Absences {
    absences: BTreeMap<PublicIpId, Absence>,
    /// When the latest reading began.
    latest: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Absence {
    /// The first of the readings in a row that did not show it began then.
    Since(Timestamp),
    /// We released it.
    Released,
}

impl Absences {
    /// How long an address has to be away until it is gone.
    pub const PATIENCE: SignedDuration = SignedDuration::from_mins(2);

    /// Takes what a reading for one Service, which began at `at`, does not show: of all that is
    /// recorded, and of what that Service records. Another one may have recorded something since.
    pub fn handle_reading(
        &mut self,
        unseen: &BTreeSet<PublicIpId>,
        of_service: &BTreeSet<PublicIpId>,
        at: Timestamp,
    ) {
        if self.latest.is_some_and(|latest| at < latest) {
            return;
        }
        self.latest = Some(at);
        self.absences.retain(|id, _| unseen.contains(id));
        for id in of_service {
            self.absences.entry(id.clone()).or_insert(Absence::Since(at));
        }
    }

    pub(super) fn handle_released(&mut self, released: BTreeSet<PublicIpId>) {
        self.absences.extend(released.into_iter().map(|id| (id, Absence::Released)));
    }

    /// Whether an address that a reading which began at `at` does not show is gone.
    pub fn is_gone(&self, id: &PublicIpId, at: Timestamp) -> bool {
        match self.absences.get(id) {
            Some(Absence::Since(since)) => at.duration_since(*since) >= Self::PATIENCE,
            Some(Absence::Released) => true,
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address() -> PublicIpId {
        PublicIpId::parse("8b5c46b3-c790-4802-ae37-3ac915d8dbef").unwrap()
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn an_address_is_gone_once_every_reading_of_two_minutes_agrees() {
        let mut absences = Absences::default();
        assert!(!absences.is_gone(&address(), at(0)));
        for (second, is_seen, is_gone) in [
            (0, false, false),
            (100, true, false),
            (110, false, false),
            (229, false, false),
            (230, false, true),
            (240, true, false),
            (500, false, false),
        ] {
            let unseen = if is_seen { BTreeSet::new() } else { [address()].into() };
            absences.handle_reading(&unseen, &unseen, at(second));
            assert_eq!(absences.is_gone(&address(), at(second)), is_gone, "{second}");
        }
    }

    #[test]
    fn a_reading_that_comes_late_tells_nothing_new() {
        let mut absences = Absences::default();
        let unseen = [address()].into();
        absences.handle_reading(&BTreeSet::new(), &BTreeSet::new(), at(100));
        absences.handle_reading(&unseen, &unseen, at(50));
        absences.handle_reading(&unseen, &unseen, at(170));
        assert!(!absences.is_gone(&address(), at(170)));
    }

    #[test]
    fn what_others_recorded_after_a_reading_is_not_missed_by_it() {
        let mut absences = Absences::default();
        let unseen = [address()].into();
        absences.handle_reading(&unseen, &BTreeSet::new(), at(0));
        absences.handle_reading(&unseen, &unseen, at(150));
        assert!(!absences.is_gone(&address(), at(150)));
        absences.handle_reading(&unseen, &BTreeSet::new(), at(200));
        absences.handle_reading(&unseen, &unseen, at(270));
        assert!(absences.is_gone(&address(), at(270)));
    }

    #[test]
    fn what_we_released_ourselves_is_gone_until_it_is_seen_again() {
        let mut absences = Absences::default();
        absences.handle_released([address()].into());
        assert!(absences.is_gone(&address(), at(0)));
        let unseen = [address()].into();
        absences.handle_reading(&unseen, &unseen, at(1));
        assert!(absences.is_gone(&address(), at(1)));
        absences.handle_reading(&BTreeSet::new(), &BTreeSet::new(), at(2));
        assert!(!absences.is_gone(&address(), at(3)));
    }
}
