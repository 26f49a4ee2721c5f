"""Machine unlearning: objectives, primal-dual steps, baselines, certificates and audits."""
