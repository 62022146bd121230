"""Multi-hop question answering with search: HotpotQA and sets of the same form."""
