//! `deploy/docs/permissions.md`.

use std::fmt::Write as _;

use super::Task;
use super::cloudstack::COMMANDS;
use super::kubernetes::{GRANTS, Grant, Source};

/// The reference, as `deploy/docs/permissions.md` holds it.
pub fn markdown() -> String {
    // Writing to a String can't fail.
    let mut text = String::from(INTRODUCTION);
    for used in COMMANDS {
        let what = if used.changes { "changes" } else { "reads" };
        let _ = writeln!(
            text,
            "| `{}` | {what} | {} | {} | {} |",
            used.command,
            used.need.word(),
            used.purpose,
            used.without
        );
    }
    text.push_str(CLUSTER);
    for grant in GRANTS {
        let _ = writeln!(
            text,
            "| `{grant}` | {} | {} | {} | {} |",
            tasks(grant),
            need(grant),
            grant.purpose,
            grant.without
        );
    }
    text.push_str(END);
    text
}

fn tasks(grant: &Grant) -> String {
    if grant.tasks == Task::ALL {
        return "all".to_owned();
    }
    grant.tasks.iter().map(|task| task.name()).collect::<Vec<_>>().join(", ")
}

fn need(grant: &Grant) -> String {
    let word = grant.need.word();
    match grant.source {
        Source::Manifest => word.to_owned(),
        Source::BuiltIn(role) => format!("{word}, by `{role}`"),
    }
}

const INTRODUCTION: &str = "\
# Permissions

<!-- Generated from core/src/permission/; tests/tests/docs.rs compares. -->

`cloudstack-ccm check-permissions` compares these tables with what is there:

```sh
cloudstack-ccm check-permissions --cloud-config cloud-config --kubeconfig admin.conf
```

## In CloudStack

The role User may use all of them; so may Domain Admin and Root Admin, but no administrator's command
is ever sent. \"Project Kubernetes Service Role\" lacks some that are optional. From CloudStack 4.23 on
a key pair can have rules of its own that allow less than its role does; if all that such a key lacks
are commands that change something, their use tells it at the earliest.

`plan`, `snapshot` and `--dry-run` use those that read, and no other.

| Command | It | Is | What for | Without it |
|---|---|---|---|---|
";

const CLUSTER: &str = "
## In the cluster

`deploy/manifests/rbac.yaml` grants what the controller and `apply` use, and
`deploy/manifests/dry-run.yaml` what `--dry-run`, `plan` and `snapshot` use. Where a built-in role
grants it, the manifest binds to that.

| Verb and resource | For | Is | What for | Without it |
|---|---|---|---|---|
";

const END: &str = "
A person who runs `plan` or `snapshot` needs the cluster role of the dry run, and nothing of it can
change anything but Events:

```sh
kubectl create clusterrolebinding plan-alice --clusterrole=system:cloudstack-ccm-dry-run --user=alice
```

## Answers of check-permissions

| State | Means |
|---|---|
| allowed | it was tried, or the other side says so |
| missing | it was refused, or the other side says so |
| unknown | only its use would tell: the key may not use `listApis`, or has rules of its own |

`--output json` gives the same for programs, in the form of `deploy/permissions.schema.json`:

| Field | Holds |
|---|---|
| `kind`, `formatVersion` | `Permissions`, `1.0`; fields can be added within format 1, ignore those that you don't know |
| `task` | what `--for` says |
| `complete` | whether nothing that is needed is missing |
| `cloudstack`, `kubernetes` | each side that was asked: `url`, `permissions`, and `version` if CloudStack tells it |
| `permissions` | a list of `name`, `state`, `needed`, `purpose`, `without` |
";
