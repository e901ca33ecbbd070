//! Whether a saved plan is still the plan: step by step, what would be different now.

use ccm_core::render::document::StepView;

/// What differs between the saved steps of a Service and those that would be planned now; empty if
/// nothing does. Job ids are drawn anew for every plan and don't count.
pub(crate) fn differences(saved: &[StepView], now: &[StepView]) -> Vec<String> {
    let saved: Vec<StepView> = saved.iter().map(timeless).collect();
    let now: Vec<StepView> = now.iter().map(timeless).collect();
    if saved == now {
        return Vec::new();
    }
    let find = |steps: &[StepView], id: &str| steps.iter().find(|step| step.id == id).cloned();
    let mut found = Vec::new();
    for step in &saved {
        match find(&now, &step.id) {
            None => found.push(format!("{}: {} is not needed any more", step.id, step.call.name)),
            Some(other) if other != *step => found.push(between(step, &other)),
            Some(_) => {}
        }
    }
    for step in &now {
        if find(&saved, &step.id).is_none() {
            let why = &step.reason.text;
            found.push(format!("{}: {} is needed now: {why}", step.id, step.call.name));
        }
    }
    if found.is_empty() {
        found.push("the order of the steps".to_owned());
    }
    found
}

/// The intent names a job id, which every plan draws anew.
fn timeless(step: &StepView) -> StepView {
    let mut step = step.clone();
    if let Some(intent) = step.call.args.get_mut("intent")
        && intent.starts_with("job ")
    {
        "job".clone_into(intent);
    }
    step
}

fn between(saved: &StepView, now: &StepView) -> String {
    let StepView { id, service: _, kind: _, call, after, disruption, reason } = saved;
    let mut parts = Vec::new();
    if call.name != now.call.name {
        parts.push(format!("{} was planned, now {}", call.name, now.call.name));
    }
    let names = call.args.keys().chain(now.call.args.keys());
    let mut names: Vec<&String> = names.collect();
    names.sort();
    names.dedup();
    for name in names {
        let (was, is) = (call.args.get(name), now.call.args.get(name));
        if was != is {
            let text = |value: Option<&String>| value.map_or("absent".into(), |v| format!("{v:?}"));
            parts.push(format!("{name} was {}, now {}", text(was), text(is)));
        }
    }
    if *reason != now.reason {
        parts.push(format!("planned because {}; now {}", reason.text, now.reason.text));
    }
    if *after != now.after {
        parts.push("it waits for other steps".to_owned());
    }
    if *disruption != now.disruption {
        parts.push("it costs something else".to_owned());
    }
    format!("{id}: {}", parts.join("; "))
}

#[cfg(test)]
mod tests {
    use ccm_core::plan::reason::Disruption;
    use ccm_core::render::document::{CallView, Why};

    use super::*;

    fn step(id: &str, args: &[(&str, &str)]) -> StepView {
        let args = args.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        StepView {
            id: id.to_owned(),
            service: "shop/web".to_owned(),
            kind: "change".to_owned(),
            call: CallView { name: "updateLoadBalancerRule".to_owned(), args: args.collect() },
            after: Vec::new(),
            disruption: Disruption::Reload,
            reason: Why { code: "AlgorithmDiffers".to_owned(), text: "it differs".to_owned() },
        }
    }

    #[test]
    fn another_job_id_is_no_difference() {
        let at = |job| [step("intent", &[("intent", job)]), step("rule/tcp-80", &[])];
        assert!(differences(&at("job 1"), &at("job 2")).is_empty());
        assert_eq!(differences(&at("job 1"), &at("removed")).len(), 1);
    }

    #[test]
    fn every_difference_is_told_by_step() {
        let saved = [step("rule/tcp-80", &[("algorithm", "source")]), step("rule/tcp-443", &[])];
        let now = [step("rule/tcp-80", &[("algorithm", "roundrobin")]), step("members/x", &[])];
        insta::assert_snapshot!(differences(&saved, &now).join("\n"), @r#"
        rule/tcp-80: algorithm was "source", now "roundrobin"
        rule/tcp-443: updateLoadBalancerRule is not needed any more
        members/x: updateLoadBalancerRule is needed now: it differs
        "#);
        let turned: Vec<StepView> = saved.iter().rev().cloned().collect();
        assert_eq!(differences(&saved, &turned), ["the order of the steps"]);
    }
}
