"""A Prometheus that scrapes the cluster as config/prometheus says, but from fixed addresses and every second."""
import json
import os
import re
import subprocess
import urllib.parse

from expressions import metrics_in, of_dashboard, of_rules
from replicas import ROOT, free_port, get, wait_until

DASHBOARD = os.path.join(ROOT, "config", "grafana", "dashboards", "attentiond.json")
SETTINGS = os.path.join(ROOT, "config", "prometheus", "prometheus.yml")
RULES = os.path.join(ROOT, "config", "prometheus", "rules.yml")
START_SECONDS = 60


def here(text, targets):
    """The settings with these targets in place of names to look up: {job: [address:port]}."""
    text = re.sub(r"(scrape_interval|evaluation_interval): \S+", r"\1: 1s", text)
    text = text.replace("rules.yml", RULES)

    def fixed(match):
        return "%s    static_configs: [{targets: %s}]\n" % (match[1], json.dumps(targets[match[2]]))

    return re.sub(r"(  - job_name: (\w+)\n)    dns_sd_configs:\n(?:      .*\n)+", fixed, text)


class Prometheus:
    def __init__(self, scratch, targets):
        self.port = free_port(["127.0.0.1"])
        self.log_path = os.path.join(scratch, "prometheus.log")
        path = os.path.join(scratch, "prometheus.yml")
        with open(SETTINGS, encoding="utf-8") as file, open(path, "w", encoding="utf-8") as out:
            out.write(here(file.read(), targets))
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                ["prometheus", "--config.file=" + path, "--storage.tsdb.path=" + os.path.join(scratch, "series"),
                 "--web.listen-address=127.0.0.1:%d" % self.port], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        wait_until(lambda: get("127.0.0.1", self.port, "/-/ready")[0] == 200 or self.process.poll() is not None,
                   START_SECONDS, "Prometheus is ready, see " + self.log_path)

    def ask(self, what, **query):
        """The data of an answer of its API, or None when it refuses the question."""
        status, body = get("127.0.0.1", self.port, "/api/v1/%s?%s" % (what, urllib.parse.urlencode(query)))
        return json.loads(body)["data"] if status == 200 else None

    def value(self, expression):
        """The series that an expression has just now."""
        data = self.ask("query", query=expression)
        return None if data is None else data["result"]

    def rules(self):
        return [rule for group in self.ask("rules")["groups"] for rule in group["rules"]]

    def discard(self):
        self.process.kill()
        self.process.wait()


def names_on(page):
    """Metrics of a page, as samples have them."""
    return {re.split(r"[ {]", line, maxsplit=1)[0] for line in page.splitlines() if line and line[0] != "#"}


def unknown_metrics(pages):
    """Metrics that the dashboard or the rules name and no page has."""
    with_names = [text for _, text in of_dashboard(DASHBOARD)] + [of_rules(RULES)]
    named = set().union(*map(metrics_in, with_names))
    return sorted(named - set().union({"up"}, *map(names_on, pages)))
