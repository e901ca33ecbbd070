//! What the tests stand on.
//!
//! | File | Holds |
//! |---|---|
//! | `settings.rs` | what `tests/e2e/run` says in the environment |
//! | `ports.rs` | free ports |
//! | `process.rs` | a process that ends with its test |
//! | `cluster.rs` | an API server with its etcd |
//! | `access.rs` | kubeconfigs, and clients from them |
//! | `manifests.rs` | what `deploy/manifests` holds, and how it gets into a cluster |
//! | `audit.rs` | what the API server was asked, and by whom |
//! | `cloud.rs` | CloudStack |
//! | `controller.rs` | the real binary, as a controller |
//! | `command.rs` | the real binary, as a command |
//! | `scene.rs` | all of that together |
//! | `objects.rs` | Services, Nodes and Events |
//! | `eventually.rs` | waiting for a state |

pub(crate) mod access;
pub(crate) mod audit;
pub(crate) mod cloud;
pub(crate) mod cluster;
pub(crate) mod command;
pub(crate) mod controller;
pub(crate) mod eventually;
pub(crate) mod manifests;
pub(crate) mod objects;
mod ports;
pub(crate) mod process;
pub(crate) mod scene;
pub(crate) mod settings;
