//! An explanation as it is printed: for programs as it stands, for people as text.

use serde::Serialize;

use super::request::ExplainRequest;
use crate::cmd::describe::{Answer, Share};
use crate::output::columns::Columns;
use crate::output::{BAD, DIM, GOOD, TITLE, paint};

/// Where the request goes and why.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explained {
    pub request: RequestView,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listener: Option<ListenerView>,
    pub candidates: Vec<CandidateView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub winner: Option<Winner>,
    pub filters: Vec<String>,
    /// What the backend sees where that is not what the client sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forwarded: Option<Forwarded>,
    /// Where a redirect leads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    pub backends: Vec<Share>,
    /// What Postern answers itself; absent when the request is forwarded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
    /// Why there is no HTTP answer at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// Whether it is forwarded or redirected.
    pub is_served: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestView {
    pub method: String,
    pub url: String,
    pub host: String,
    pub port: u16,
    pub path: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListenerView {
    pub name: String,
    pub port: u16,
    pub protocol: &'static str,
    pub hostname: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CandidateView {
    pub name: String,
    pub hostname: String,
    pub conditions: String,
    pub outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Winner {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beats_the_next_on: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Forwarded {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

impl Forwarded {
    /// `None` when nothing is changed.
    pub fn new(host: Option<String>, path: Option<String>) -> Option<Self> {
        (host.is_some() || path.is_some()).then_some(Self { host, path })
    }
}

impl Explained {
    /// Nothing is known yet but the request.
    pub fn new(request: &ExplainRequest) -> Self {
        let request = RequestView {
            method: request.method.to_string(),
            url: request.url.clone(),
            host: request.host.clone(),
            port: request.port,
            path: request.path.clone(),
        };
        Self {
            request,
            gateway: None,
            listener: None,
            candidates: Vec::new(),
            winner: None,
            filters: Vec::new(),
            forwarded: None,
            location: None,
            backends: Vec::new(),
            answer: None,
            refused: None,
            is_served: false,
        }
    }

    /// There is no HTTP answer.
    pub fn refuse(self, because: String) -> Self {
        Self { refused: Some(because), ..self }
    }

    /// Postern answers itself; a redirect is what the author wants, everything else is not.
    pub fn answer(self, answer: Answer) -> Self {
        Self { is_served: answer.status < 400, answer: Some(answer), ..self }
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n", paint(TITLE, format!("{} {}", self.request.method, self.request.url)));
        if let Some(gateway) = &self.gateway {
            text += &format!("gateway {gateway}");
            if let Some(ListenerView { name, port, protocol, hostname }) = &self.listener {
                text += &format!(", listener {name} (port {port}, {protocol}, hostname {hostname})");
            }
            text += "\n";
        }
        if !self.candidates.is_empty() {
            text += &format!("\ncandidates in precedence order:\n{}", self.candidate_lines());
        }
        text += "\n";
        if let Some(Winner { name, beats_the_next_on }) = &self.winner {
            let by = beats_the_next_on.as_ref().map(|by| format!(" (beats the next candidate on {by})"));
            text += &format!(
                "winner: {}{}\n",
                paint(GOOD, name),
                by.unwrap_or_else(|| " (no other candidate matches)".into())
            );
        }
        if !self.filters.is_empty() {
            text += "filters:\n";
            text.extend(self.filters.iter().map(|filter| format!("  {filter}\n")));
        }
        if !self.backends.is_empty() {
            text += &format!("forward{}:\n{}", self.changes(), self.backend_lines());
        }
        if let Some(answer) = &self.answer {
            let status = paint(if answer.status < 400 { GOOD } else { BAD }, answer.short());
            let because = match &self.location {
                Some(location) => format!("location {location}"),
                None => answer.because.clone(),
            };
            text += &format!("answer: {status}, {because}\n");
        }
        if let Some(because) = &self.refused {
            text += &format!("answer: {}, {because}\n", paint(BAD, "none"));
        }
        text
    }

    /// ` as path /api/users, host app.internal`
    fn changes(&self) -> String {
        let Some(Forwarded { host, path }) = &self.forwarded else { return String::new() };
        let path = path.iter().map(|path| format!("path {path}"));
        let parts = path.chain(host.iter().map(|host| format!("host {host}")));
        format!(" as {}", parts.collect::<Vec<_>>().join(", "))
    }

    fn candidate_lines(&self) -> String {
        let mut columns = Columns::new(2);
        for (index, candidate) in self.candidates.iter().enumerate() {
            let outcome = match (candidate.outcome, &candidate.because) {
                ("matched", _) => paint(GOOD, "takes the request"),
                ("outranked", Some(because)) => format!("matches, loses on {because}"),
                (_, because) => paint(DIM, because.as_deref().unwrap_or_default()),
            };
            let number = format!("{}.", index + 1);
            columns.row([&number, &candidate.name, &candidate.hostname, &candidate.conditions, &outcome]);
        }
        columns.render()
    }

    fn backend_lines(&self) -> String {
        let mut columns = Columns::new(2);
        for share in &self.backends {
            let weight = format!("weight {} ({:.1}%)", share.weight, share.percent);
            let to = match (&share.answer, &share.endpoints) {
                (Some(answer), _) => format!("{}, {}", paint(BAD, answer.short()), answer.because),
                (None, Some(endpoints)) => endpoints.join(", "),
                (None, None) => paint(DIM, "endpoints unknown: no EndpointSlice of it in the input"),
            };
            columns.row([share.backend.as_deref().unwrap_or("invalid reference"), &weight, &to]);
            share.filters.iter().for_each(|filter| columns.line(filter.as_str()));
        }
        columns.render()
    }
}
