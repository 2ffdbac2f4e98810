//! Tests of compose files.

use std::{collections::BTreeMap, time::Duration};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_document::ConfigError;
use proctor_sandbox::docker::{BuildOptions, MountSource, Restart, ServiceCheck, StartCondition};
use tempfile::TempDir;

use super::{Compose, ComposeContext, ServiceImage, read};
use crate::workspace::Image;

struct Folder {
    _dir: TempDir,
    path: Utf8PathBuf,
}

fn folder() -> Folder {
    let dir = tempfile::tempdir().unwrap();
    let path = Utf8PathBuf::from_path_buf(dir.path().canonicalize().unwrap()).unwrap();
    for (name, text) in [
        ("environment/Dockerfile", "FROM a\n"),
        ("environment/db/Dockerfile", "FROM b\n"),
        ("environment/db/seed.sql", "select 1;\n"),
        ("environment/db.env", "PASSWORD=\"x y\"\n# no\nMODE=file\n"),
    ] {
        let file = path.join(name);
        fs_err::create_dir_all(file.parent().unwrap()).unwrap();
        fs_err::write(file, text).unwrap();
    }
    Folder { _dir: dir, path }
}

fn of_dockerfile(folder: &Utf8Path) -> Image {
    Image::Build {
        context: folder.to_owned(),
        dockerfile: folder.join("Dockerfile"),
        options: BuildOptions::default(),
    }
}

fn load_as(main: &str, folder: &Folder, text: &str) -> Result<Compose, ConfigError> {
    let place = folder.path.join("environment");
    let file = place.join("docker-compose.yaml");
    fs_err::write(&file, text).unwrap();
    let variables = [
        ("MAIN_IMAGE_NAME", "it"),
        ("CONTEXT_DIR", place.as_str()),
        ("CPUS", "2"),
        ("MEMORY", "512M"),
        ("HOST_AGENT_LOGS_PATH", "/logs/agent"),
        ("ENV_AGENT_LOGS_PATH", "/logs/agent"),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let context = ComposeContext {
        main,
        folder: place.clone(),
        task: folder.path.clone(),
        variables: variables.into(),
        image: of_dockerfile(&place),
        image_name: "it".to_owned(),
    };
    read(&file, &context)
}

fn load(text: &str) -> Compose {
    load_as("main", &folder(), text).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn file_with_the_main_service_only_needs_no_other() {
    let folder = folder();
    let text = "
services:
  main:
    build: {context: '${CONTEXT_DIR}'}
    image: ${MAIN_IMAGE_NAME}
    command: [sh, -c, sleep infinity]
    environment: [TEST_DIR=/tests, FROM_HERE]
    volumes: ['${HOST_AGENT_LOGS_PATH}:${ENV_AGENT_LOGS_PATH}']
    deploy: {resources: {limits: {cpus: '${CPUS}', memory: '${MEMORY}'}}}
";
    let compose = load_as("main", &folder, text).unwrap();
    assert!(!compose.has_services());
    assert_eq!(
        compose.image,
        of_dockerfile(&folder.path.join("environment"))
    );
    assert_eq!(compose.main.env["TEST_DIR"], "/tests");
    assert_eq!(
        compose.main.env.len(),
        1,
        "variables of this machine are not passed"
    );
    assert_eq!(compose.main.mounts, [], "logs are copied, not mounted");
    assert_eq!(compose.main.limits.cpus, Some(2.0));
    assert_eq!(compose.main.limits.memory, Some(512 << 20));
}

#[test]
fn main_service_is_added_and_has_a_name_of_its_format() {
    let compose = load("services: {db: {image: postgres:16}}\n");
    assert_eq!(compose.main_name, "main");
    assert_eq!(compose.services.len(), 1);
    let text = "services: {client: {image: it}, db: {image: x}}\n";
    let compose = load_as("client", &folder(), text).unwrap();
    assert_eq!(compose.main_name, "client");
    assert_eq!(compose.services[0].spec.name, "db");
}

const ALL_NOTATIONS: &str = "
x-shared: &shared
  restart: unless-stopped
services:
  main:
    depends_on:
      db: {condition: service_healthy}
      seed: {condition: service_completed_successfully}
    networks: {inner: {aliases: [agent]}}
  db:
    <<: *shared
    build: {context: ./db, args: {V: 16}, target: last}
    container_name: pg
    env_file: db.env
    environment: {MODE: own, EMPTY: ''}
    healthcheck: {test: [CMD, pg_isready, -q], interval: 2s, retries: 5, start_period: 1m}
    networks: [inner]
    volumes: ['data:/var/lib', './db/seed.sql:/seed.sql:ro', /cache]
    ports: ['5432:5432']
    shm_size: 64m
  seed:
    image: ${MAIN_IMAGE_NAME}
    command: sh -c 'echo \"a b\"'
    depends_on: [db]
    healthcheck: {disable: true}
    cap_add: [NET_ADMIN]
    init: true
  debug: {image: x, profiles: [debug]}
networks: {inner: {driver: bridge, internal: true}}
volumes: {data: {}}
";

#[test]
fn services_are_read_with_all_notations() {
    let folder = folder();
    let compose = load_as("main", &folder, ALL_NOTATIONS).unwrap();
    assert_eq!(compose.main.networks["inner"], ["agent"]);
    assert!(compose.networks["inner"]);
    assert!(compose.volumes.contains("data"));
    let names: Vec<&str> = compose
        .services
        .iter()
        .map(|it| it.spec.name.as_str())
        .collect();
    assert_eq!(names, ["db", "seed"]);
    let (db, seed) = (&compose.services[0], &compose.services[1]);
    let settings = &db.spec.settings;
    let context = folder.path.join("environment/./db");
    assert!(
        matches!(&db.image, ServiceImage::Own(Image::Build { options, dockerfile, .. })
            if options.args["V"] == "16" && options.target.as_deref() == Some("last")
                && *dockerfile == context.join("Dockerfile")),
        "{:?}",
        db.image
    );
    assert_eq!(settings.restart, Restart::Always);
    assert_eq!(settings.env["PASSWORD"], "x y");
    assert_eq!(settings.env["MODE"], "own");
    assert_eq!(settings.networks["inner"], ["pg"]);
    assert_eq!(settings.shm_size, Some(64 << 20));
    assert_eq!(
        settings.mounts[0].source,
        MountSource::Volume("data".to_owned())
    );
    let seed_file = folder.path.join("environment/db/seed.sql");
    assert_eq!(
        settings.mounts[1].source,
        MountSource::Copy(seed_file.into())
    );
    assert!(settings.mounts[1].read_only);
    assert_eq!(settings.mounts[2].source, MountSource::Anonymous);
    let ServiceCheck::Own(check) = &db.spec.check else {
        panic!("{:?}", db.spec.check);
    };
    assert_eq!(check.argv, ["pg_isready", "-q"]);
    assert_eq!(check.start_period, Duration::from_mins(1));
    assert_eq!(seed.image, ServiceImage::Main);
    assert_eq!(
        seed.spec.settings.command.as_deref().unwrap(),
        ["sh", "-c", "echo \"a b\""]
    );
    let started = BTreeMap::from([("db".to_owned(), StartCondition::Started)]);
    assert_eq!(seed.spec.depends_on, started);
    assert_eq!(seed.spec.check, ServiceCheck::None);
    let notes = compose.notes.join("\n");
    assert!(
        notes.contains("`ports`") && notes.contains("`debug`"),
        "{notes}"
    );
}

#[test]
fn other_keys_are_refused_by_name() {
    for (text, expect) in [
        ("services: {main: {privileged: true}}", "`privileged`"),
        ("services: {main: {network_mode: host}}", "`network_mode`"),
        ("services: {main: {pid: host}}", "`pid`"),
        ("services: {main: {cap_add: [SYS_ADMIN]}}", "SYS_ADMIN"),
        (
            "services: {main: {volumes: ['/var/run/docker.sock:/s']}}",
            "outside the task",
        ),
        (
            "services: {main: {volumes: ['../../x:/s']}}",
            "outside the task",
        ),
        (
            "services: {main: {deploy: {replicas: 3}}}",
            "`deploy.replicas`",
        ),
        (
            "services: {db: {command: x}}",
            "neither `image` nor `build`",
        ),
        (
            "services: {db: {image: x, depends_on: [no]}}",
            "does not exist",
        ),
        ("services: {db: {image: x, networks: [no]}}", "not defined"),
        (
            "services: {a: {image: x, depends_on: [b]}, b: {image: x, depends_on: [a]}}",
            "cycle",
        ),
        ("services: {a: {image: x, secrets: [s]}}", "`secrets`"),
        ("secrets: {}", "`secrets`"),
        ("services: {a: {image: '${X:?set it}'}}", "`X` is required"),
        ("services: [a]", "`services` must be a map"),
        (
            "services: {a: {image: x, shm_size: much}}",
            "invalid `shm_size`",
        ),
    ] {
        let error = load_as("main", &folder(), text).unwrap_err();
        assert!(error.to_string().contains(expect), "{text}: {error}");
    }
}
