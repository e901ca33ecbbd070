//! A watch that keeps a store up to date.

use std::fmt::Debug;
use std::hash::Hash;

use futures_util::StreamExt as _;
use kube::runtime::reflector::{ObjectRef, Store, store};
use kube::runtime::watcher::{self, Config, Event};
use kube::runtime::{WatchStreamExt as _, reflector};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tracing::{debug, warn};

/// Watches all objects of a kind: a store, and the task that fills it and tells `touched` of every
/// object that may be new, changed or gone, and with `None` that all were listed. What goes wrong is
/// logged and tried again, with a growing pause.
pub fn watch<K>(
    api: Api<K>,
    touched: impl Fn(Option<&K>) + Send + 'static,
) -> (Store<K>, impl Future<Output = ()> + Send)
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    K::DynamicType: Default + Eq + Hash + Clone + Send + Sync,
{
    let (reader, writer) = store();
    let kind = K::kind(&K::DynamicType::default()).into_owned();
    let events = watcher::watcher(api, Config::default()).default_backoff();
    let kept = reflector(writer, events);
    let listed = reader.clone();
    let task = async move {
        let mut kept = std::pin::pin!(kept);
        let mut before = Vec::new();
        while let Some(event) = kept.next().await {
            match event {
                Ok(Event::Apply(object)) => touched(Some(&object)),
                Ok(Event::Delete(object)) => touched(Some(&object)),
                Ok(Event::Init) => before = listed.state(),
                Ok(Event::InitDone) => {
                    debug!(kind, count = listed.len(), "listed");
                    // What went while nobody watched is in the former list only.
                    let gone = before.drain(..).filter(|object| is_gone(&listed, object));
                    gone.for_each(|object| touched(Some(&object)));
                    listed.state().iter().for_each(|object| touched(Some(object)));
                    touched(None);
                }
                Ok(Event::InitApply(_)) => {}
                Err(error) => warn!(kind, %error, "the watch has failed and begins again"),
            }
        }
    };
    (reader, task)
}

fn is_gone<K>(store: &Store<K>, object: &K) -> bool
where
    K: Resource + Clone + 'static,
    K::DynamicType: Default + Eq + Hash + Clone,
{
    store.get(&ObjectRef::from_obj(object)).is_none()
}
