//! Reads an entry and checks its values.

use serde_json::Value;

use super::{Family, InputSpec, ModelSpec, Recipe, RegistryError, RoleInput};
use crate::backend::kserve::RemoteSpec;
use facescan_imaging::{
    preprocess::{Layout, MAX_SIDE, Mode},
    warp::ALIGNED_SIDE,
};

/// Reads and checks one entry. `number` (from 0) identifies an entry without an id.
pub fn read(entry: Value, number: usize) -> Result<ModelSpec, RegistryError> {
    let name = match entry.get("id") {
        Some(Value::String(id)) => id.clone(),
        _ => format!("#{}", number + 1),
    };
    let model: ModelSpec = serde_path_to_error::deserialize(entry)
        .map_err(|error| RegistryError::invalid(&name, &error.path().to_string(), error.inner()))?;
    check(&model)?;
    Ok(model)
}

/// Refuses the first field with an invalid value.
pub fn check(model: &ModelSpec) -> Result<(), RegistryError> {
    check_identity(model)?;
    match model.role.input() {
        RoleInput::Letterbox => {
            check_is_for_faces(model)?;
            check_size(model)?;
        }
        RoleInput::AlignedCrop => {
            check_is_for_faces(model)?;
            check_aligned(model)?;
        }
        RoleInput::Image => check_image(model)?,
    }
    check_dim(model)?;
    check_ranges(model)?;
    check_recipe(model)
}

fn require(model: &ModelSpec, holds: bool, field: &str, reason: &str) -> Result<(), RegistryError> {
    if holds {
        Ok(())
    } else {
        Err(RegistryError::invalid(&model.id, field, reason))
    }
}

fn check_identity(model: &ModelSpec) -> Result<(), RegistryError> {
    let id_char = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-".contains(c);
    require(
        model,
        !model.id.is_empty() && model.id.chars().all(id_char),
        "id",
        "may have lower-case letters, digits, `.`, `_` and `-` only",
    )?;
    let (name, role) = (model.family.name(), model.family.role());
    let reason = format!("models of family {name} have the role {role}");
    require(model, model.role == role, "role", &reason)?;
    require(model, is_sha256(&model.sha256), "sha256", NOT_A_SHA256)?;
    let has_file = !model.file.as_os_str().is_empty();
    require(
        model,
        has_file != model.remote.is_some(),
        "file",
        "a model has a file, or `remote` names the server that runs it",
    )
}

fn check_aligned(model: &ModelSpec) -> Result<(), RegistryError> {
    let InputSpec { width, height, .. } = model.input;
    let aligned = "must be 112, as aligned crops are";
    let has_multiple = model.input.size_multiple.is_some();
    require(model, !has_multiple, "input.size_multiple", ONE_SIZE)?;
    require(model, width == ALIGNED_SIDE, "input.width", aligned)?;
    require(model, height == ALIGNED_SIDE, "input.height", aligned)
}

/// Checks that a model of vectors has their length, and that no other model has one.
fn check_dim(model: &ModelSpec) -> Result<(), RegistryError> {
    let reason = match model.role.has_vector() {
        true => format!("this {} needs the length of its vector", model.role),
        false => format!("this {} has no vectors", model.role),
    };
    let holds = match model.dim {
        None => !model.role.has_vector(),
        Some(dim) => model.role.has_vector() && dim > 0,
    };
    require(model, holds, "dim", &reason)
}

fn check_ranges(model: &ModelSpec) -> Result<(), RegistryError> {
    let finite = model.input.mean.iter().all(|m| m.is_finite());
    require(model, finite, "input.mean", "must be finite")?;
    let normal = model.input.scale.iter().all(|s| s.is_normal());
    require(model, normal, "input.scale", "must be finite and not zero")?;
    let thresholds = &model.thresholds;
    for (field, value, lowest) in [
        ("thresholds.score", Some(thresholds.score), 0.0),
        ("thresholds.nms_iou", Some(thresholds.nms_iou), 0.0),
        ("thresholds.cosine_far_1e3", thresholds.cosine_far_1e3, -1.0),
        ("thresholds.cosine_far_1e4", thresholds.cosine_far_1e4, -1.0),
    ] {
        let holds = value.is_none_or(|value| (lowest..=1.0).contains(&value));
        require(model, holds, field, &format!("must be in {lowest}..1"))?;
    }
    Ok(())
}

fn check_recipe(model: &ModelSpec) -> Result<(), RegistryError> {
    let Some(prepare) = &model.prepare else {
        return Ok(());
    };
    let has_sha256 = is_sha256(&prepare.sha256);
    require(model, has_sha256, "prepare.sha256", NOT_A_SHA256)?;
    let fits = match prepare.recipe {
        Recipe::Yunet => model.family == Family::Yunet,
        Recipe::Sface => model.family == Family::Sface,
        Recipe::Centerface => model.family == Family::Centerface,
    };
    require(model, fits, "prepare.recipe", "is for another family")
}

/// Refuses fields for encoders in other entries, because they would have no effect there.
fn check_is_for_faces(model: &ModelSpec) -> Result<(), RegistryError> {
    let input = &model.input;
    let absent = [
        ("output", model.output.is_none()),
        ("pooling", model.pooling.is_none()),
        ("input.layout", input.layout == Layout::Nchw),
        ("input.profile", input.profile.is_none()),
        ("input.mode", input.mode.is_none()),
        ("input.pad", input.pad.is_none()),
        ("remote", model.remote.is_none()),
    ];
    for (field, is_absent) in absent {
        require(model, is_absent, field, "is for encoders")?;
    }
    Ok(())
}

fn check_image(model: &ModelSpec) -> Result<(), RegistryError> {
    let input = &model.input;
    let has_multiple = input.size_multiple.is_some();
    require(model, !has_multiple, "input.size_multiple", ONE_SIZE)?;
    for (field, side) in [("input.width", input.width), ("input.height", input.height)] {
        let holds = (1..=MAX_SIDE).contains(&side);
        require(model, holds, field, "must be from 1 to 8192")?;
    }
    if let Some(Err((field, reason))) = model.remote.as_ref().map(RemoteSpec::check) {
        return Err(RegistryError::invalid(
            &model.id,
            &format!("remote.{field}"),
            &reason,
        ));
    }
    require(
        model,
        input.mode != Some(Mode::ShortSide),
        "input.mode",
        "short_side makes images of different sizes; set another mode here, because preprocess.mode applies by default",
    )
}

/// Checks that a detector's sides are multiples of its grid's strides, up to 32. Otherwise a part of the image would be
/// left out.
fn check_size(model: &ModelSpec) -> Result<(), RegistryError> {
    let multiple = model.input.size_multiple.unwrap_or(32);
    for (field, side, of) in [
        ("input.size_multiple", multiple, 32),
        ("input.width", model.input.width, multiple),
        ("input.height", model.input.height, multiple),
    ] {
        let holds = side != 0 && side.is_multiple_of(of);
        require(model, holds, field, &format!("must be a multiple of {of}"))?;
    }
    Ok(())
}

const ONE_SIZE: &str = "this model takes one size only";
const NOT_A_SHA256: &str = "must be 64 lower-case hex digits";

fn is_sha256(text: &str) -> bool {
    let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    text.len() == 64 && text.bytes().all(hex)
}
