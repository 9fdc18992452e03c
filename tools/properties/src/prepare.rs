//! Files of models that are prepared.

use facescan_inference::{
    prepare::{PrepareError, rewrite},
    registry::Recipe,
};

/// The longest text of an error, per byte of the file. Errors quote names in the file.
const TEXT_PER_BYTE: usize = 8;

/// Every recipe refuses a file, or rewrites it to a file that the same code reads. The same file is always rewritten to
/// the same bytes. A recipe that only frees dimensions changes nothing the second time.
pub fn prepare(file: &[u8]) {
    for recipe in [Recipe::Yunet, Recipe::Sface, Recipe::Centerface] {
        match rewrite(file, recipe) {
            Err(error) => {
                let text = error.to_string();
                assert!(
                    text.len() <= 1024 + TEXT_PER_BYTE * file.len(),
                    "{} bytes",
                    text.len()
                );
            }
            Ok(prepared) => {
                let again = rewrite(file, recipe).expect("it was rewritten before");
                assert_eq!(again, prepared, "{recipe:?} is not deterministic");
                let twice = rewrite(&prepared, recipe);
                assert!(
                    !matches!(twice, Err(PrepareError::Onnx(_))),
                    "{recipe:?} wrote a file that is not a model"
                );
                if recipe == Recipe::Centerface {
                    let twice = twice.expect("a file without fixed dimensions can be prepared");
                    assert_eq!(twice, prepared, "{recipe:?} changes its own result");
                }
            }
        }
    }
}
