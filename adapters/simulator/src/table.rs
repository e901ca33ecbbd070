//! A table of rows with the two names CloudStack gives every row: a number in the database and a
//! UUID on the wire.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

/// The database number of a row of one kind. Numbers grow, so they also tell the age.
pub(crate) struct Key<T> {
    number: u64,
    kind: PhantomData<fn() -> T>,
}

/// A row that carries its UUID.
pub(crate) trait Row {
    fn id(&self) -> &str;
}

/// All rows of one kind, by age.
#[derive(Debug, Clone)]
pub(crate) struct Table<T> {
    rows: BTreeMap<u64, T>,
    /// UUID in lower case to number; also of rows that were buried.
    numbers: BTreeMap<String, u64>,
    last: u64,
}

impl<T: Row> Table<T> {
    pub(crate) fn new() -> Self {
        Self { rows: BTreeMap::new(), numbers: BTreeMap::new(), last: 0 }
    }

    /// Adds a row with the number after the last one ever given.
    pub(crate) fn insert(&mut self, row: T) -> Key<T> {
        self.insert_at(self.last + 1, row)
    }

    /// Adds a row with a number of its own, or else with the next one.
    pub(crate) fn insert_numbered(&mut self, number: Option<u64>, row: T) -> Key<T> {
        self.insert_at(number.unwrap_or(self.last + 1), row)
    }

    /// Adds a row with a number that the caller draws, for kinds that share one database table.
    pub(crate) fn insert_at(&mut self, number: u64, row: T) -> Key<T> {
        self.numbers.insert(row.id().to_lowercase(), number);
        self.rows.insert(number, row);
        self.last = self.last.max(number);
        Key::of(number)
    }

    pub(crate) fn get(&self, key: Key<T>) -> Option<&T> {
        self.rows.get(&key.number)
    }

    pub(crate) fn get_mut(&mut self, key: Key<T>) -> Option<&mut T> {
        self.rows.get_mut(&key.number)
    }

    /// Takes a row out and forgets its UUID.
    pub(crate) fn remove(&mut self, key: Key<T>) -> Option<T> {
        let row = self.rows.remove(&key.number)?;
        self.numbers.remove(&row.id().to_lowercase());
        Some(row)
    }

    /// Takes a row out but keeps its UUID known, as CloudStack does where it only marks rows as
    /// removed.
    pub(crate) fn bury(&mut self, key: Key<T>) -> Option<T> {
        self.rows.remove(&key.number)
    }

    /// The key of a UUID in any letter case; buried rows are found too.
    pub(crate) fn find(&self, id: &str) -> Option<Key<T>> {
        self.numbers.get(&id.to_lowercase()).map(|number| Key::of(*number))
    }

    /// Rows from the oldest to the newest.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (Key<T>, &T)> {
        self.rows.iter().map(|(number, row)| (Key::of(*number), row))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (Key<T>, &mut T)> {
        self.rows.iter_mut().map(|(number, row)| (Key::of(*number), row))
    }
}

impl<T> Key<T> {
    pub(crate) fn of(number: u64) -> Self {
        Self { number, kind: PhantomData }
    }

    pub(crate) fn number(self) -> u64 {
        self.number
    }
}

// Written by hand because a derive would ask the same of the row type.
impl<T> Clone for Key<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Key<T> {}
impl<T> PartialEq for Key<T> {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}
impl<T> Eq for Key<T> {}
impl<T> PartialOrd for Key<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Key<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.number.cmp(&other.number)
    }
}
impl<T> fmt::Debug for Key<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "#{}", self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Clone, PartialEq)]
    struct Named(&'static str);
    impl Row for Named {
        fn id(&self) -> &str {
            self.0
        }
    }

    #[test]
    fn removed_rows_are_forgotten_and_buried_ones_still_resolve() {
        let mut table = Table::new();
        let one = table.insert(Named("one"));
        let two = table.insert(Named("TWO"));
        table.bury(one);
        table.remove(two);
        assert_eq!(table.find("ONE"), Some(one));
        assert_eq!(table.get(one), None);
        assert_eq!(table.find("two"), None);
        assert!(one < two);
    }
}
