//! Options with every default of the settings filled in, so that a later change of the settings does not split a batch.

use facescan_config::Config;
use facescan_inference::registry::Thresholds;
use facescan_pipeline::{
    core::{error::PipelineError, options::DetectOptions},
    operations::{
        embed_image::ImageEmbeddingPlan,
        enhance::{plan::EnhancePlan, request::EnhanceRequest},
        process::{plan::ProcessPlan, request::ProcessRequest},
        scan::{plan::ScanPlan, request::ScanRequest},
    },
};

/// Sets the options for finding faces. Every request names them in the same way.
macro_rules! set_detection {
    ($request:ident, $detect:expr) => {{
        // Without `..`, so that the compiler requires a decision for each new option.
        let DetectOptions {
            min_score,
            nms_iou,
            det_size,
            second_det_size,
            max_faces: _,
            min_face_size,
        } = $detect;
        $request.min_score = Some(*min_score);
        $request.nms_iou = Some(*nms_iou);
        $request.det_size = Some(*det_size);
        $request.second_det_size = Some(second_det_size.unwrap_or(0));
        $request.min_face_size = Some(*min_face_size);
    }};
}

pub(super) fn scan(mut request: ScanRequest, plan: &ScanPlan) -> ScanRequest {
    set_detection!(request, &plan.detect);
    ScanRequest {
        max_faces: Some(plan.detect.max_faces.unwrap_or(0)),
        decode: Some(plan.decode),
        landmarks: Some(plan.landmarks),
        preset: Some(plan.preset),
        embedding_format: Some(plan.embedding_format),
        cache: Some(plan.storage.cache),
        priority: None,
        ..request
    }
}

pub(super) fn embed_image(request: ScanRequest, plan: &ImageEmbeddingPlan) -> ScanRequest {
    ScanRequest {
        embedding_format: Some(plan.embedding_format),
        cache: Some(plan.storage.cache),
        priority: None,
        ..request
    }
}

pub(super) fn enhance(
    mut request: EnhanceRequest,
    plan: &EnhancePlan,
    config: &Config,
    thresholds: &Thresholds,
) -> Result<EnhanceRequest, PipelineError> {
    let detect = match &plan.identity {
        Some(identity) => identity.detect.clone(),
        None => request.clone().detection(config, thresholds)?,
    };
    set_detection!(request, &detect);
    Ok(EnhanceRequest {
        format: Some(plan.format),
        jpeg_quality: Some(plan.jpeg_quality),
        priority: None,
        ..request
    })
}

pub(super) fn process(mut request: ProcessRequest, plan: &ProcessPlan) -> ProcessRequest {
    set_detection!(request, plan.detect());
    ProcessRequest {
        max_faces: Some(plan.detect().max_faces.unwrap_or(0)),
        format: Some(plan.format()),
        jpeg_quality: Some(plan.jpeg_quality()),
        priority: None,
        ..request
    }
}
