//! `facescan enroll`: enrolls the faces in images in a collection of a server.

use std::{
    collections::HashMap,
    io::{self, Write},
    process::ExitCode,
};

use anyhow::Context;
use clap::Args;
use facescan_config::Sources;
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    client::{Client, CollectionArgs, Refusal, image_entry, json_object, path_with},
    files::{self, Found},
    runtime::{success_if, tokio_runtime},
};

/// The images, and whom they show.
#[derive(Debug, Args)]
pub struct EnrollArgs {
    #[command(flatten)]
    to: CollectionArgs,
    /// The external_id of the subject whom all images show. Without it, the folder of an image names its subject. Libraries
    /// have no subjects.
    #[arg(long, value_name = "TEXT")]
    subject: Option<String>,
    /// What new subjects have, as a JSON object: consent, expires_at and metadata.
    #[arg(long, value_name = "JSON", value_parser = json_object, default_value = "{}")]
    details: Value,
    /// The options of the enrollment, as a JSON object.
    #[arg(long, value_name = "JSON", value_parser = json_object, default_value = "{}")]
    options: Value,
}

/// Enrolls the faces, and prints one JSON line for each image.
pub fn run(args: &EnrollArgs, sources: &Sources) -> anyhow::Result<ExitCode> {
    files::check(&args.to.paths)?;
    tokio_runtime()?.block_on(async {
        let mut enrolling = Enrolling::begin(args, sources).await?;
        let (mut enrolled, mut others) = (0_u64, 0_u64);
        for found in files::images(&args.to.paths) {
            let mut line = match enrolling.enroll(&found).await? {
                Ok(line) => line,
                Err(error) => json!({"error": error.to_string()}),
            };
            match is_enrolled(&line) {
                true => enrolled += 1,
                false => others += 1,
            }
            line["path"] = found.name().into();
            writeln!(io::stdout(), "{line}")?;
        }
        files::say_what_was_left_out(&args.to.paths);
        eprintln!("{enrolled} images enrolled, {others} not");
        Ok(success_if(others == 0))
    })
}

/// Returns whether an image was read and every face of its line is enrolled.
fn is_enrolled(line: &Value) -> bool {
    // The faces of a library are in one result.
    let faces = line["faces"].as_array().or(line["results"].as_array());
    line.get("error").is_none()
        && faces.is_some_and(|faces| faces.iter().all(|face| face["status"] == "enrolled"))
}

/// A collection that gets faces.
struct Enrolling<'a> {
    args: &'a EnrollArgs,
    client: Client,
    is_library: bool,
    /// The ids of the subjects by their `external_id`.
    subjects: HashMap<String, Uuid>,
}

impl<'a> Enrolling<'a> {
    async fn begin(args: &'a EnrollArgs, sources: &Sources) -> anyhow::Result<Self> {
        let client = Client::new(&args.to.server, sources)?;
        let collection = client.json(Method::GET, &args.to.path()).await?;
        let is_library = collection["kind"] == "library";
        anyhow::ensure!(
            !(is_library && args.subject.is_some()),
            "the collection is a library, which has no subjects; leave --subject out"
        );
        Ok(Self {
            args,
            client,
            is_library,
            subjects: HashMap::new(),
        })
    }

    /// Enrolls the faces of an image. The inner error is that of the image alone.
    async fn enroll(&mut self, found: &Found) -> anyhow::Result<anyhow::Result<Value>> {
        let entry = match image_entry(found).await {
            Ok(entry) => entry,
            Err(error) => return Ok(Err(error)),
        };
        let collection = self.args.to.path();
        let body = json!({"faces": [entry], "options": self.args.options});
        if self.is_library {
            let path = format!("{collection}/enrollments");
            let response = self.post(&path, &body).await?;
            return Ok(response.map(|mut response| response["results"][0].take()));
        }
        let Some(name) = self.subject_of(found) else {
            let error = "no folder names the subject; name it with --subject";
            return Ok(Err(anyhow::anyhow!(error)));
        };
        let subject = self.subject(&name).await?;
        let path = format!("{collection}/subjects/{subject}/enrollments");
        let response = self.post(&path, &body).await?;
        Ok(response.map(|mut response| {
            json!({"subject_id": subject, "external_id": name, "results": response["results"].take()})
        }))
    }

    /// Sends an image. The inner error is that of the image alone.
    async fn post(&self, path: &str, body: &Value) -> anyhow::Result<anyhow::Result<Value>> {
        match self.client.post(path, body).await {
            Err(error) if error.downcast_ref().is_some_and(Refusal::is_of_the_image) => {
                Ok(Err(error))
            }
            response => response.map(Ok),
        }
    }

    fn subject_of(&self, found: &Found) -> Option<String> {
        if let Some(subject) = &self.args.subject {
            return Some(subject.clone());
        }
        let folder = found.path.parent().filter(|_| found.url.is_none())?;
        Some(folder.file_name()?.to_str()?.to_owned())
    }

    /// Returns the subject with an `external_id`, and creates it if there is none.
    async fn subject(&mut self, external_id: &str) -> anyhow::Result<Uuid> {
        if let Some(id) = self.subjects.get(external_id) {
            return Ok(*id);
        }
        let path = format!("{}/subjects", self.args.to.path());
        let query = path_with(&path, &[("external_id", external_id.to_owned())]);
        let found = self.client.json(Method::GET, &query).await?;
        let subject = match &found["results"][0] {
            Value::Null => {
                let mut details = self.args.details.clone();
                details["external_id"] = external_id.into();
                self.client.post(&path, &details).await?
            }
            subject => subject.clone(),
        };
        let id = subject["id"].as_str().and_then(|id| id.parse().ok());
        let id = id.context("the response has no id of the subject")?;
        self.subjects.insert(external_id.to_owned(), id);
        Ok(id)
    }
}
