//! One file per kind of object: its row, its JSON, and the commands that list and change it.

pub(crate) mod account;
pub(crate) mod api;
pub(crate) mod change_acl;
pub(crate) mod change_acl_list;
pub(crate) mod create_rule;
pub(crate) mod domain;
pub(crate) mod firewall_rule;
pub(crate) mod job;
pub(crate) mod load_balancer_rule;
pub(crate) mod member;
pub(crate) mod network;
pub(crate) mod network_acl;
pub(crate) mod port_forward;
pub(crate) mod public_ip;
pub(crate) mod reserved_ip;
pub(crate) mod resource_limit;
pub(crate) mod services;
pub(crate) mod static_nat;
pub(crate) mod stickiness;
pub(crate) mod tag;
pub(crate) mod user;
pub(crate) mod virtual_machine;
pub(crate) mod vm_life;
pub(crate) mod vm_nics;
pub(crate) mod vpc;
pub(crate) mod zone;
