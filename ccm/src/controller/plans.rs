//! The latest plan of every Service, for `/plan` and the gauge of planned actions in a dry run.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ccm_core::ids::ServiceKey;
use ccm_core::plan::Plan;
use ccm_core::render::document::Document;

use crate::metrics::Metrics;

/// See the module.
#[derive(Debug, Default)]
pub struct LatestPlans(Mutex<BTreeMap<ServiceKey, (Plan, Document)>>);

impl LatestPlans {
    /// Takes the plan of a Service in place of its last one.
    pub fn set(&self, plan: Plan, document: Document, metrics: &Metrics) {
        let mut plans = self.plans();
        if plan.is_empty() {
            plans.remove(&plan.service);
        } else {
            plans.insert(plan.service.clone(), (plan, document));
        }
        metrics.planned(plans.values().map(|(plan, _)| plan));
    }

    /// Forgets a Service that is gone.
    pub fn forget(&self, key: &ServiceKey) {
        self.plans().remove(key);
    }

    /// A JSON array of plans, those with steps, in the form of `deploy/plan.schema.json`.
    pub fn json(&self) -> String {
        let plans = self.plans();
        let documents: Vec<&Document> = plans.values().map(|(_, document)| document).collect();
        serde_json::to_string(&documents).unwrap_or_default()
    }

    fn plans(&self) -> MutexGuard<'_, BTreeMap<ServiceKey, (Plan, Document)>> {
        let Self(plans) = self;
        plans.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
