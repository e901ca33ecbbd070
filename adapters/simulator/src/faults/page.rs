//! Lists that do not show what is there.

/// What is wrong with a page of a list. `count` is always right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageFault {
    /// Its last row is missing.
    Short,
    /// Its last row is there twice.
    Duplicated,
    /// Its rows are in the opposite order.
    Reordered,
    /// Every page but the first begins one row too early, as if a row had come in before it.
    Shifted,
    /// It shows the world as it was when the fault was injected.
    Stale,
}

impl PageFault {
    /// Where a page begins that should begin at a row.
    pub(crate) fn first(self, first: usize) -> usize {
        match self {
            Self::Shifted => first.saturating_sub(1),
            Self::Short | Self::Duplicated | Self::Reordered | Self::Stale => first,
        }
    }

    /// Spoils the rows of a page.
    pub(crate) fn spoil<T: Clone>(self, rows: &mut Vec<T>) {
        match self {
            Self::Short => drop(rows.pop()),
            Self::Duplicated => rows.extend(rows.last().cloned()),
            Self::Reordered => rows.reverse(),
            // Another page, or another world.
            Self::Shifted | Self::Stale => {}
        }
    }
}
