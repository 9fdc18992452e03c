use std::path::PathBuf;

use ::parquet::file::reader::{FileReader, SerializedFileReader};
use facescan_pipeline::core::scan::Embedding;
use serde_json::{Value, json};

use super::*;
use crate::cli::embed::record::Vector;

/// A face, an image without a face, a failed image, and a whole image.
fn records() -> Vec<Record> {
    let vector = |face, vector: [f32; 2]| Vector {
        face,
        embedding: Embedding {
            vector: vector.to_vec(),
            norm: 5.0,
            precision: Some(NumericPrecision::Bf16),
        },
    };
    let face = FacePlace {
        face: 1,
        bbox: [1.0, 2.0, 3.0, 4.0],
        score: Some(0.5),
    };
    let error = ErrorEntry {
        code: "image_corrupt",
        detail: "not an image".to_owned(),
    };
    [
        ("a.jpg", Ok(vec![vector(Some(face), [0.6, 0.8])])),
        ("b.jpg", Ok(Vec::new())),
        ("c.jpg", Err(error)),
        ("d.jpg", Ok(vec![vector(None, [-1.0, 0.0])])),
    ]
    .into_iter()
    .flat_map(|(path, vectors)| Record::from_vectors(Path::new(path), vectors))
    .collect()
}

fn written(name: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    let mut file = VectorFile::create(
        Some((&path, Ending::from_path(&path).unwrap())),
        "c0ffee",
        2,
    )
    .unwrap();
    for record in records() {
        file.write(record).unwrap();
    }
    assert_eq!(file.finish().unwrap(), 2);
    (folder, path)
}

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn json_lines_contain_the_vectors_and_the_errors() {
    let (_folder, path) = written("v.jsonl");
    let expected = [
        json!({"path": "a.jpg", "face": 1, "bbox": [1.0, 2.0, 3.0, 4.0], "score": 0.5, "embedding_norm": 5.0, "embedding": [0.6, 0.8], "vector_space": "c0ffee", "precision": "bf16"}),
        json!({"path": "b.jpg"}),
        json!({"path": "c.jpg", "error": {"code": "image_corrupt", "detail": "not an image"}}),
        json!({"path": "d.jpg", "embedding_norm": 5.0, "embedding": [-1.0, 0.0], "vector_space": "c0ffee", "precision": "bf16"}),
    ];
    assert_eq!(lines(&path), expected);
}

#[test]
fn an_index_file_describes_the_rows_of_a_matrix() {
    let (_folder, path) = written("v.npy");
    let bytes = std::fs::read(&path).unwrap();
    let head = String::from_utf8_lossy(&bytes[..HEAD]);
    assert!(head.contains("'<f4'") && head.contains("(2, 2)"), "{head}");
    let index = lines(&beside(&path));
    let rows: Vec<&Value> = index.iter().map(|line| &line["row"]).collect();
    assert_eq!(rows, [&json!(0), &Value::Null, &Value::Null, &json!(1)]);
}

#[test]
fn a_parquet_table_can_be_read_back() {
    let (_folder, path) = written("v.parquet");
    let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
    let facts = reader.metadata().file_metadata().key_value_metadata();
    assert_eq!(facts.unwrap()[0].value.as_deref(), Some("c0ffee"));
    let rows: Vec<String> = reader
        .get_row_iter(None)
        .unwrap()
        .map(|row| row.unwrap().to_string())
        .collect();
    let expected = [
        r#"{path: "a.jpg", face: 1, x1: 1.0, y1: 2.0, x2: 3.0, y2: 4.0, score: 0.5, embedding_norm: 5.0, precision: "bf16", embedding: [0.6, 0.8], error_code: null, error_detail: null}"#,
        r#"{path: "b.jpg", face: null, x1: null, y1: null, x2: null, y2: null, score: null, embedding_norm: null, precision: null, embedding: null, error_code: null, error_detail: null}"#,
        r#"{path: "c.jpg", face: null, x1: null, y1: null, x2: null, y2: null, score: null, embedding_norm: null, precision: null, embedding: null, error_code: "image_corrupt", error_detail: "not an image"}"#,
        r#"{path: "d.jpg", face: null, x1: null, y1: null, x2: null, y2: null, score: null, embedding_norm: 5.0, precision: "bf16", embedding: [-1E0, 0E0], error_code: null, error_detail: null}"#,
    ];
    assert_eq!(rows, expected);
}

#[test]
fn other_endings_are_refused() {
    let said = Ending::from_path(Path::new("v.csv"))
        .unwrap_err()
        .to_string();
    assert!(said.contains(".npy, .parquet or .jsonl"), "{said}");
}
