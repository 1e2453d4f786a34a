//! Java artifacts with all they depend on, copied once into a folder of jars.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Progress, ServiceError, process::run};

const MARKER: &str = "complete.pom.xml";
const PLUGIN: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies";

/// Artifacts that belong into one class path.
pub struct Artifacts {
    /// Name of the folder below the cache; it should hold the version.
    pub folder: &'static str,
    /// `group:artifact:version` each.
    pub coordinates: &'static [&'static str],
}

impl Artifacts {
    /// Whether they are in the folder of jars below `cache`, all of them.
    pub fn is_resolved(&self, cache: &Path) -> bool {
        fs::read_to_string(cache.join(self.folder).join(MARKER)).is_ok_and(|complete| complete == self.pom())
    }

    /// The folder of jars below `cache`; downloads them unless they are there already.
    pub fn resolve(&self, cache: &Path, service: &str, progress: Progress<'_>) -> Result<PathBuf, ServiceError> {
        let (folder, pom) = (cache.join(self.folder), self.pom());
        let (jars, marker) = (folder.join("jars"), folder.join(MARKER));
        if self.is_resolved(cache) {
            return Ok(jars);
        }
        // Runs with folders of their own, and tests, may share the downloads.
        let lock = cache.join(format!("{}.lock", self.folder));
        let _held = fs::create_dir_all(cache)
            .and_then(|()| File::create(&lock))
            .and_then(|file| file.lock().map(|()| file))
            .map_err(ServiceError::io(format!("locking {}", lock.display())))?;
        if self.is_resolved(cache) {
            return Ok(jars);
        }
        progress(&format!(
            "{service}: resolving {} from Maven (first time: about a minute)",
            self.coordinates.join(", ")
        ));
        let _ = fs::remove_dir_all(&folder); // a download that was cut off, or other versions
        fs::create_dir_all(&folder).map_err(ServiceError::io(format!("creating {}", folder.display())))?;
        let file = folder.join("pom.xml");
        fs::write(&file, &pom).map_err(ServiceError::io(format!("writing {}", file.display())))?;
        let mut maven = Command::new("mvn");
        maven
            .args([
                "--batch-mode",
                "--quiet",
                "--no-transfer-progress",
                "--strict-checksums",
                "-Dstyle.color=never",
                PLUGIN,
                "-DincludeScope=runtime",
            ])
            .arg(format!("-DoutputDirectory={}", jars.display()))
            .current_dir(&folder);
        run(&format!("{service}: resolving with Maven"), &mut maven)?;
        fs::rename(&file, &marker).map_err(ServiceError::io(format!("writing {}", marker.display())))?;
        Ok(jars)
    }

    fn pom(&self) -> String {
        let mut dependencies = String::new();
        for coordinate in self.coordinates {
            let mut parts = coordinate.splitn(3, ':');
            let (group, artifact, version) =
                (parts.next().unwrap_or_default(), parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            dependencies.push_str(&format!(
                "    <dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version></dependency>\n"
            ));
        }
        format!(
            "<project xmlns=\"http://maven.apache.org/POM/4.0.0\">\n  <modelVersion>4.0.0</modelVersion>\n  \
             <groupId>settle.test</groupId><artifactId>class-path</artifactId><version>1</version>\n  \
             <dependencies>\n{dependencies}  </dependencies>\n</project>\n"
        )
    }
}
