//! A map that forgets what was not used for longest.

use std::collections::BTreeMap;

/// At most `capacity` values.
#[derive(Clone, Debug)]
pub(super) struct Lru<K, V> {
    capacity: usize,
    clock: u64,
    values: BTreeMap<K, (u64, V)>,
    by_use: BTreeMap<u64, K>,
}

impl<K: Ord + Clone, V: Default> Lru<K, V> {
    pub(super) fn new(capacity: usize) -> Self {
        Self { capacity, clock: 0, values: BTreeMap::new(), by_use: BTreeMap::new() }
    }

    /// The value of a key, made if it is not there; the most recently used from now on.
    pub(super) fn touch(&mut self, key: K) -> &mut V {
        self.clock += 1;
        if let Some((used, _)) = self.values.get(&key) {
            self.by_use.remove(used);
        } else if self.values.len() >= self.capacity
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.values.remove(&oldest);
        }
        self.by_use.insert(self.clock, key.clone());
        let (used, value) = self.values.entry(key).or_default();
        *used = self.clock;
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_longest_ago_is_forgotten() {
        let mut lru: Lru<&str, u32> = Lru::new(2);
        *lru.touch("a") = 1;
        *lru.touch("b") = 2;
        assert_eq!(*lru.touch("a"), 1);
        *lru.touch("c") = 3;
        assert_eq!([*lru.touch("a"), *lru.touch("c")], [1, 3]);
        assert_eq!(*lru.touch("b"), 0, "forgotten");
        assert_eq!((lru.values.len(), lru.by_use.len()), (2, 2));
    }
}
