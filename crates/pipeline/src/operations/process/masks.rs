//! The masks of a request.

use std::sync::Arc;

use bytes::Bytes;
use facescan_imaging::crop::{Region, box_of_mask};
use facescan_inference::pool::Stage;

use super::request::{MaskUnion, ProcessPlan};
use crate::{
    Pipeline,
    context::RequestContext,
    core::{
        error::PipelineError,
        memory,
        work::{self, WorkMeter},
    },
};

impl Pipeline {
    /// Decodes the masks, which must have the same size, and computes the box around all of them.
    ///
    /// # Errors
    /// An error of a mask.
    pub async fn load_masks(
        &self,
        context: &RequestContext,
        plan: ProcessPlan,
        masks: Vec<Bytes>,
    ) -> Result<ProcessPlan, PipelineError> {
        if masks.is_empty() {
            return Ok(plan);
        }
        let mut meter = WorkMeter::new(self.work_limit);
        for mask in &masks {
            meter.add(work::mask(mask))?;
        }
        let pipeline = self.clone();
        let memory = masks
            .iter()
            .map(|mask| self.memory_of(mask, memory::decoding));
        let memory = memory.max().unwrap_or_default();
        let permit = self.decode_permit(context, memory).await;
        let read = async move {
            let _permit = permit;
            let mut size = None;
            let mut region: Option<Region> = None;
            for bytes in &masks {
                let mask = pipeline.decode(bytes, None).await?.pixels;
                if *size.get_or_insert(mask.dimensions()) != mask.dimensions() {
                    return Err(PipelineError::invalid_option(
                        "mask",
                        "the masks differ in size",
                    ));
                }
                region = match (region, box_of_mask(&mask)) {
                    (Some(a), Some(b)) => Some(a.union(b)),
                    (a, b) => a.or(b),
                };
            }
            Ok(size.map(|size| MaskUnion { size, region }))
        };
        let tenant = Some(Arc::clone(&context.principal.tenant));
        let mask = self.pool.drive(tenant, Stage::Begin, read).await??;
        Ok(ProcessPlan { mask, ..plan })
    }
}
