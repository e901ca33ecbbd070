//! stub
use crate::saved::Snapshot;
/// stub
pub fn replace(snapshot: &Snapshot) -> anyhow::Result<Snapshot> {
    Ok(snapshot.clone())
}
