//! What `postern operator` is told: flags, and the variables that a pod gets from the API.

use std::net::SocketAddr;

use clap::{Args, ValueEnum};
use postern_translate::snapshot::{self, CONTROLLER_NAME, Claim, Infrastructure};

/// Watch a cluster, run its Gateways, and serve them their configuration
#[derive(Args, Clone, Debug)]
pub struct Settings {
    /// The controller that GatewayClasses name to be ours
    #[arg(long, value_name = "NAME", default_value = CONTROLLER_NAME)]
    pub controller_name: String,
    /// The image of the data planes: the one that this operator runs from
    #[arg(long, value_name = "IMAGE", env = "POSTERN_IMAGE")]
    pub image: String,
    /// When nodes pull the image of the data planes: Always, IfNotPresent or Never
    #[arg(long, value_name = "POLICY")]
    pub image_pull_policy: Option<String>,
    /// A Secret to pull the image of the data planes with, in the namespace of each Gateway; may be repeated
    #[arg(long, value_name = "SECRET")]
    pub image_pull_secret: Vec<String>,
    /// How Gateways are reached
    #[arg(long, value_name = "TYPE", value_enum, default_value_t)]
    pub service_type: ServiceType,
    /// Serve configuration to data planes at this address
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "[::]:15010")]
    pub channel_address: SocketAddr,
    /// Where data planes find that address: the Service of this operator
    #[arg(long, value_name = "HOST:PORT", default_value = "postern.postern-system.svc:15010")]
    pub channel_service: String,
    /// Serve /metrics, /healthz and /readyz at this address
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "[::]:15021")]
    pub admin: SocketAddr,
    /// Write only while this replica holds the Lease. Without that, there may be one replica only
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    pub leader_election: bool,
    /// The Lease, in the namespace of this operator; named as its Service unless given
    #[arg(long, value_name = "NAME")]
    pub lease: Option<String>,
    /// The namespace of this operator
    #[arg(long, value_name = "NAMESPACE", env = "POD_NAMESPACE", default_value = "postern-system")]
    pub namespace: String,
    /// The name of this replica, unlike that of all others
    #[arg(long, value_name = "NAME", env = "POD_NAME", default_value = "postern")]
    pub name: String,
    /// The form of log lines
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    pub log_format: LogFormat,
}

/// How Gateways are reached.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum ServiceType {
    /// By addresses that a load balancer gives
    #[default]
    LoadBalancer,
    /// By an address of the cluster
    #[value(name = "ClusterIP")]
    ClusterIp,
    /// By the addresses of the cluster and ports of the nodes
    NodePort,
    /// By the addresses of the pods
    Headless,
}

/// The form of log lines.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum LogFormat {
    /// For people
    #[default]
    Text,
    /// For machines
    Json,
}

impl Settings {
    /// What translation is told.
    pub fn of_translation(&self) -> snapshot::Settings {
        snapshot::Settings {
            controller_name: self.controller_name.clone(),
            claim: Claim::OurClasses,
            infrastructure: Some(Infrastructure {
                image: self.image.clone(),
                image_pull_policy: self.image_pull_policy.clone(),
                image_pull_secrets: self.image_pull_secret.clone(),
                channel: format!("https://{}", self.channel_service),
                service_type: match self.service_type {
                    ServiceType::LoadBalancer => snapshot::ServiceType::LoadBalancer,
                    ServiceType::ClusterIp => snapshot::ServiceType::ClusterIp,
                    ServiceType::NodePort => snapshot::ServiceType::NodePort,
                    ServiceType::Headless => snapshot::ServiceType::Headless,
                },
            }),
        }
    }

    /// The name of our Service, by which what is ours in our namespace is named.
    pub fn own_name(&self) -> &str {
        let end = self.channel_service.find(['.', ':']).unwrap_or(self.channel_service.len());
        &self.channel_service[..end]
    }

    /// The names that data planes may know this operator by.
    pub fn channel_names(&self) -> Vec<String> {
        let host = self.channel_service.rsplit_once(':').map_or(&*self.channel_service, |(host, _)| host);
        let mut names = vec![host.to_owned()];
        if host.ends_with(".svc") {
            names.push(format!("{host}.cluster.local"));
        }
        names
    }

    /// The name of the Lease.
    pub fn lease(&self) -> &str {
        self.lease.as_deref().unwrap_or_else(|| self.own_name())
    }
}
